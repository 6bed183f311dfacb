#include "fs/given/metadata_given.h"

namespace codecfs::fs {

void MetadataGiven::add(Ino dataset, Ino file) {
  const LockGuard lock(mutex_);
  if (datasets_.emplace(file, dataset).second) files_[dataset].insert(file);
}

void MetadataGiven::add_name(Ino file) {
  const LockGuard lock(mutex_);
  without_size_.insert(file);
}

void MetadataGiven::add_size(Ino file) {
  const LockGuard lock(mutex_);
  without_size_.erase(file);
  had_size_.insert(file);
}

bool MetadataGiven::had_size(Ino file) const {
  const LockGuard lock(mutex_);
  return had_size_.contains(file);
}

bool MetadataGiven::lacks_size(Ino file) const {
  const LockGuard lock(mutex_);
  return without_size_.contains(file);
}

void MetadataGiven::take(Ino dataset, Ino file, const Tell& tell) {
  const LockGuard lock(mutex_);
  const auto found = datasets_.find(file);
  if (found == datasets_.end() || found->second != dataset) return;
  tell(file);
  erase(file);
}

void MetadataGiven::take_all(Ino dataset, const Tell& tell) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(dataset);
  if (found == files_.end()) return;
  for (const Ino file : found->second) {
    tell(file);
    datasets_.erase(file);
  }
  files_.erase(found);
}

void MetadataGiven::erase(Ino file) {
  const auto found = datasets_.find(file);
  if (found == datasets_.end()) return;
  const auto files = files_.find(found->second);
  files->second.erase(file);
  if (files->second.empty()) files_.erase(files);
  datasets_.erase(found);
}

}  // namespace codecfs::fs
