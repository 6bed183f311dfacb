#pragma once
// An open file of which a whole content is read.

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "fs/handles/file_handle.h"
#include "fs/handles/whole_files.h"

namespace codecfs::fs {

class SnapshotHandle final : public FileHandle {
 public:
  /// `live`: it shows the content at its open, which the kernel does not cache.
  SnapshotHandle(WholeFiles& whole, std::unique_ptr<Snapshot> snapshot, bool live)
      : whole_(whole), snapshot_(std::move(snapshot)) {
    caching.live = live;
  }

  Result<Slice> read(uint64_t offset, size_t size) override {
    Stats& stats = whole_.mount().stats;
    if (caching.live) {
      const LockGuard lock(snapshot_->mutex);
      return part_of(stats, snapshot_->held, offset, size);
    }
    CODECFS_ASSIGN(const Slice content, whole_.look_at(*snapshot_));
    return part_of(stats, content, offset, size);
  }

 private:
  WholeFiles& whole_;
  const std::unique_ptr<Snapshot> snapshot_;
};

}  // namespace codecfs::fs
