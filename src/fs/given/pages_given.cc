#include "fs/given/pages_given.h"

#include <algorithm>

namespace codecfs::fs {
namespace {

constexpr size_t kMaxBlocks = 8192;  // a megabyte of memory
constexpr size_t kLatest = 64;       // files for which requests may still be on their way

}  // namespace

void PagesGiven::given(Ino ino, uint64_t changes) {
  const LockGuard lock(mutex_);
  if (changes != changes_) {
    clear();
    changes_ = changes;
  }
  if (blocks_.size() >= kMaxBlocks && !blocks_.contains(ino / kInBlock)) clear();
  blocks_[ino / kInBlock].set(ino % kInBlock);
  latest_.push_back(ino);
  if (latest_.size() > kLatest) latest_.pop_front();
}

bool PagesGiven::has(Ino ino, uint64_t changes) {
  const LockGuard lock(mutex_);
  return changes == changes_ && has(ino);
}

void PagesGiven::requested(Ino ino) {
  const LockGuard lock(mutex_);
  if (has(ino) && std::ranges::find(latest_, ino) == latest_.end()) clear();
}

void PagesGiven::forget(Ino ino) {
  const LockGuard lock(mutex_);
  if (has(ino)) blocks_[ino / kInBlock].reset(ino % kInBlock);
}

bool PagesGiven::has(Ino ino) const {
  const auto block = blocks_.find(ino / kInBlock);
  return block != blocks_.end() && block->second.test(ino % kInBlock);
}

void PagesGiven::clear() {
  blocks_.clear();
  latest_.clear();
}

}  // namespace codecfs::fs
