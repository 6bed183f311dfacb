#pragma once
// An open shard of the view encoded3: shows the content that it had when it was opened. The kernel does not cache it,
// so that a reader never gets the index of one state and chunks of another.

#include <algorithm>
#include <memory>
#include <utility>

#include "fs/handles/file_handle.h"

namespace codecfs::fs {

class ShardHandle final : public FileHandle {
 public:
  ShardHandle(Stats& stats, std::shared_ptr<const ContentReader> file) : stats_(stats), file_(std::move(file)) {
    caching.live = true;
  }

  Result<Slice> read(uint64_t offset, size_t size) override {
    if (offset >= file_->size()) return Slice{};
    CODECFS_ASSIGN(Buffer bytes, file_->read(offset, std::min<uint64_t>(size, file_->size() - offset)));
    stats_.bytes_read += bytes.size();
    const auto owner = std::make_shared<const Buffer>(std::move(bytes));
    return Slice{owner->bytes(), owner};
  }

 private:
  Stats& stats_;
  const std::shared_ptr<const ContentReader> file_;
};

}  // namespace codecfs::fs
