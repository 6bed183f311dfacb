// The right to change the mounted file, and its commits.

#include "backends/hdf5/source_file.h"

#include "backends/hdf5/library_lock.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

// What a change of one chunk may write besides: nodes of its index, the free space that it leaves.
constexpr uint64_t kRoomForMetadata = uint64_t{1} << 20;  // bytes
// A longer log is brought into the source with the next commit.
constexpr uint64_t kLongLog = uint64_t{128} << 20;  // bytes

}  // namespace

Result<> SourceFile::begin_writing() {
  if (not_writable) return std::unexpected(*not_writable);
  if (failure)
    return fail(failure->code, "{}: nothing is written any more after a failure ({}); unmount and mount again", path,
                failure->reason);
  return bytes->begin_writing();
}

Result<> SourceFile::allow_change(uint64_t size) {
  CODECFS_TRY(begin_writing());
  CODECFS_TRY(bytes->reserve(size + kRoomForMetadata));
  changed = true;
  return {};
}

std::unexpected<Error> SourceFile::change_failed(std::unexpected<Error> error) {
  failure = error.error();
  log::error("{}: what was written since the last commit is lost: {}", path, failure->reason);
  return error;
}

Result<> SourceFile::commit() {
  if (!changed) return {};
  if (failure) return std::unexpected(*failure);
  if (H5Fflush(file.get(), H5F_SCOPE_LOCAL) < 0)
    return change_failed(fail_library(EIO, "{}: writing its metadata", path));
  CODECFS_TRY(bytes->commit());
  changed = false;
  if (bytes->log_bytes() > kLongLog) CODECFS_TRY(bytes->checkpoint());
  return {};
}

}  // namespace codecfs::hdf5
