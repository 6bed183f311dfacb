#include "fs/nodes/known_inodes.h"

#include <algorithm>

namespace codecfs::fs {
namespace {

constexpr unsigned kBlockBits = 10;
constexpr size_t kMaxInodeBlocks = size_t{1} << 18;
// Limit for notifications about inodes if it is unknown which ones the kernel knows.
constexpr uint64_t kMaxNotices = uint64_t{1} << 22;

/// Whether an inode is that of a folder's own names, which are not recorded: there may be millions, far apart, and no
/// change of content is told for them.
bool is_plain(Ino ino) { return ino >> kLocalBits == kPlainSlot; }

}  // namespace

void KnownInodes::add(Ino ino) {
  if (is_plain(ino)) return;
  const LockGuard lock(mutex_);
  if (all_) return;
  blocks_.insert(ino >> kBlockBits);
  if (blocks_.size() <= kMaxInodeBlocks) return;
  all_ = true;
  blocks_.clear();
}

bool KnownInodes::contains(Ino ino) const {
  if (is_plain(ino)) return true;
  const LockGuard lock(mutex_);
  return all_ || blocks_.contains(ino >> kBlockBits);
}

std::vector<KnownInodes::Range> KnownInodes::within(Range range) const {
  if (range.count == 0) return {};
  const LockGuard lock(mutex_);
  if (all_) return {{range.first, std::min(range.count, kMaxNotices)}};
  const Ino last = range.first + (range.count - 1);
  std::vector<Range> known;
  for (auto block = blocks_.lower_bound(range.first >> kBlockBits);
       block != blocks_.end() && *block <= last >> kBlockBits; ++block) {
    const Ino from = std::max(*block << kBlockBits, range.first);
    const Ino to = std::min((*block << kBlockBits) + ((Ino{1} << kBlockBits) - 1), last);
    known.push_back({from, to - from + 1});
  }
  return known;
}

}  // namespace codecfs::fs
