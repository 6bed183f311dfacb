#include "fs/handles/file_handle.h"

#include <algorithm>

#include "base/log.h"
#include "fs/context/inode_attributes.h"

namespace codecfs::fs {

Result<size_t> FileHandle::write(uint64_t, Bytes, const PageCopies::WrittenBack*, const Cancelled&) {
  return fail(EBADF, "not open for writing");
}

Result<struct stat> FileHandle::attributes_of_removed(Ino) { return not_there(); }

Slice part_of(Stats& stats, const Slice& whole, uint64_t offset, size_t size) {
  const size_t from = std::min<uint64_t>(whole.bytes.size(), offset);
  const Bytes bytes = whole.bytes.subspan(from, std::min(size, whole.bytes.size() - from));
  stats.bytes_read += bytes.size();
  return {bytes, whole.owner};
}

void log_unreported(const Result<>& result) {
  if (!result) log::error("not reported to a program, because the file is closed: {}", result.error().reason);
}

}  // namespace codecfs::fs
