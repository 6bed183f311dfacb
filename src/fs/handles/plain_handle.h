#pragma once
// An open file of a mounted folder, which is read as it is.

#include <memory>
#include <utility>

#include "base/file_io.h"
#include "base/unique_fd.h"
#include "fs/handles/file_handle.h"

namespace codecfs::fs {

class PlainHandle final : public FileHandle {
 public:
  PlainHandle(Stats& stats, UniqueFd file) : stats_(stats), file_(std::move(file)) { caching.outside = true; }

  Result<Slice> read(uint64_t offset, size_t size) override {
    CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
    CODECFS_ASSIGN(const size_t count, read_at(file_.get(), "file", offset, buffer.mutable_bytes()));
    buffer.truncate(count);
    stats_.bytes_read += count;
    const auto owner = std::make_shared<const Buffer>(std::move(buffer));
    return Slice{owner->bytes(), owner};
  }

 private:
  Stats& stats_;
  const UniqueFd file_;
};

}  // namespace codecfs::fs
