#include "fs/namespace/inode_times.h"

namespace codecfs::fs {

void InodeTimes::set(Ino ino, std::optional<timespec> accessed, std::optional<timespec> modified) {
  const std::lock_guard lock(mutex_);
  const auto found = map_.find(ino);
  if (found != map_.end()) {
    items_.splice(items_.begin(), items_, found->second);
  } else {
    if (items_.size() >= kMaxInodes) {
      map_.erase(items_.back().first);
      items_.pop_back();
    }
    items_.emplace_front(ino, Times{});
    map_.emplace(ino, items_.begin());
  }
  Times& times = items_.front().second;
  if (accessed) times.accessed = accessed;
  if (modified) times.modified = modified;
}

void InodeTimes::apply(struct stat& status) const {
  const std::lock_guard lock(mutex_);
  const auto found = map_.find(status.st_ino);
  if (found == map_.end()) return;
  const Times& times = found->second->second;
  if (times.accessed) status.st_atim = *times.accessed;
  if (times.modified) status.st_mtim = status.st_ctim = *times.modified;
}

std::optional<InodeTimes::Times> InodeTimes::take(Ino ino) {
  const std::lock_guard lock(mutex_);
  const auto found = map_.find(ino);
  if (found == map_.end()) return std::nullopt;
  const Times times = found->second->second;
  items_.erase(found->second);
  map_.erase(found);
  return times;
}

}  // namespace codecfs::fs
