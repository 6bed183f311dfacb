#pragma once
// An open file of a folder in an object store, which is read as it was when it was opened.

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/api/chunk.h"
#include "fs/handles/file_handle.h"
#include "fs/nodes/stats.h"

namespace codecfs::fs {

class ContentHandle final : public FileHandle {
 public:
  ContentHandle(Stats& stats, std::shared_ptr<const ContentReader> content)
      : stats_(stats), content_(std::move(content)) {
    caching.outside = true;
  }

  Result<Slice> read(uint64_t offset, size_t size) override {
    const uint64_t left = content_->size() - std::min(offset, content_->size());
    CODECFS_ASSIGN(Buffer buffer,
                   left == 0 ? Result<Buffer>() : content_->read(offset, std::min<uint64_t>(size, left)));
    stats_.bytes_read += buffer.size();
    const auto owner = std::make_shared<const Buffer>(std::move(buffer));
    return Slice{owner->bytes(), owner};
  }

 private:
  Stats& stats_;
  const std::shared_ptr<const ContentReader> content_;
};

}  // namespace codecfs::fs
