#include "backends/hdf5/wal/write_log_checkpoint.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/wal/write_log_format.h"
#include "base/progress_reporter.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kBlockBytes = 4096;  // allocation unit of filesystems

/// Calls `use(first, end)` for the longest ranges with origin log.
template <class Use>
Result<> for_each_run(const Overlay& overlay, const Use& use) {
  const auto& extents = overlay.extents();
  for (auto at = extents.begin(); at != extents.end();) {
    const uint64_t first = at->first;
    uint64_t end = at->second.end;
    for (++at; at != extents.end() && at->first == end; ++at) end = at->second.end;
    CODECFS_TRY(use(first, end));
  }
  return {};
}

uint64_t in_blocks(uint64_t first, uint64_t end) {
  return (end + kBlockBytes - 1) / kBlockBytes * kBlockBytes - first / kBlockBytes * kBlockBytes;
}

Result<uint64_t> bytes_of(const File& file) {
  struct stat status;
  if (::fstat(file.fd.get(), &status) != 0) return fail_errno(errno, "{}", file.path);
  return static_cast<uint64_t>(status.st_size);
}

bool has_holes(const File& file, uint64_t size) {
  const off_t hole = ::lseek(file.fd.get(), 0, SEEK_HOLE);
  return hole >= 0 && static_cast<uint64_t>(hole) < size;
}

/// True for all filesystems except those known to overwrite in place.
bool may_copy_on_write(const File& file) {
  constexpr int64_t kExt = 0xEF53;
  constexpr int64_t kTmpfs = 0x01021994;
  struct statfs filesystem;
  return ::fstatfs(file.fd.get(), &filesystem) != 0 || (filesystem.f_type != kExt && filesystem.f_type != kTmpfs);
}

bool means_unsupported(int code) { return code == EOPNOTSUPP || code == ENOSYS || code == EINVAL; }

std::unexpected<Error> no_room(const File& source, uint64_t needed, uint64_t there) {
  return fail_errno(ENOSPC, "{}: bringing the log into it needs {} bytes of disk space, and {} are free", source.path,
                    needed, there);
}

/// Writes a range of the source in parts that end at sector boundaries.
class Copier {
 public:
  Copier(FileIo& io, const Overlay& committed, const File& log, const File& source)
      : io_(io), committed_(committed), log_(log), source_(source), work_("bringing the log into " + source.path) {
    uint64_t total = 0;
    for (const auto& [first, extent] : committed.extents()) total += extent.end - first;
    work_.expect(total);
  }

  Result<> copy(uint64_t first, uint64_t end) {
    while (first < end) {
      const uint64_t until = std::min(end, (first + kCopyBytes) / kSectorBytes * kSectorBytes);
      buffer_.resize(until - first);
      for (uint64_t at = first; at < until;) {
        const Overlay::Piece piece = committed_.piece_at(at);
        const uint64_t length = std::min(piece.length, until - at);
        CODECFS_ASSIGN(const size_t got,
                       read_at(log_, piece.position, MutableBytes(buffer_).subspan(at - first, length)));
        if (got < length) return fail(EIO, "{}: became shorter than what was written to it", log_.path);
        at += length;
      }
      CODECFS_TRY(io_.write(source_, first, buffer_));
      work_.add(until - first);
      first = until;
    }
    return {};
  }

 private:
  FileIo& io_;
  const Overlay& committed_;
  const File& log_;
  const File& source_;
  ProgressReporter work_;
  std::vector<std::byte> buffer_;
};

}  // namespace

bool overwriting_allocates(const File& file) {
  if (may_copy_on_write(file)) return true;
  const auto size = bytes_of(file);
  return !size || has_holes(file, *size);
}

uint64_t available_space(const File& file) {
  struct statvfs room;
  if (::fstatvfs(file.fd.get(), &room) != 0) return UINT64_MAX;
  return uint64_t{room.f_bavail} * room.f_frsize;
}

uint64_t largest_file() {
  struct rlimit limit;
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

Result<> check_space(const Overlay& committed, const File& source) {
  CODECFS_ASSIGN(const uint64_t size, bytes_of(source));
  const bool copies = may_copy_on_write(source);
  uint64_t needed = 0;
  uint64_t last = committed.size() > size ? committed.size() : 0;
  CODECFS_TRY(for_each_run(committed, [&](uint64_t first, uint64_t end) -> Result<> {
    last = std::max(last, end);
    // reserve_space() checks the growth.
    const uint64_t overwritten = std::min(end, size);
    if (copies && first < overwritten) needed += in_blocks(first, overwritten);
    return {};
  }));
  if (last > largest_file())
    return fail_errno(EFBIG, "{}: {} bytes exceed the maximum file size of this process (ulimit -f)", source.path,
                      last);
  if (const uint64_t there = available_space(source); needed > there) return no_room(source, needed, there);
  return {};
}

Result<> reserve_space(FileIo& io, const Overlay& committed, const File& source) {
  CODECFS_ASSIGN(const uint64_t size, bytes_of(source));
  const bool holes = has_holes(source, size);
  uint64_t counted = 0;
  const auto take = [&](uint64_t first, uint64_t end) -> Result<> {
    if (!holes) first = std::max(first, size);
    if (first >= end) return {};
    const Result<> taken = io.allocate(source, first, end - first);
    if (taken || !means_unsupported(taken.error().code)) return taken;
    counted += in_blocks(first, end);  // fallocate is not supported
    return {};
  };
  CODECFS_TRY(for_each_run(committed, take));
  if (const uint64_t there = available_space(source); counted > there) return no_room(source, counted, there);
  return {};
}

Result<> copy_into_source(FileIo& io, const Overlay& committed, const File& log, const File& source,
                          bool& sync_failed) {
  const auto sync = [&] {
    Result<> synced = io.sync(source);
    sync_failed = !synced;
    return synced;
  };
  CODECFS_ASSIGN(const uint64_t size, bytes_of(source));
  // Bytes that were truncated and grew again are zeros, but an interrupted copy may have left other content there.
  if (size > committed.base_end() && committed.size() > committed.base_end())
    CODECFS_TRY(io.truncate(source, committed.base_end()));
  const uint64_t superblock = find_signature(source.fd.get()).value_or(0);
  const uint64_t superblock_end = superblock + kSectorBytes;
  Copier copier(io, committed, log, source);
  const auto copy_rest = [&](uint64_t first, uint64_t end) -> Result<> {
    CODECFS_TRY(copier.copy(first, std::min(end, superblock)));
    return copier.copy(std::max(first, superblock_end), end);
  };
  CODECFS_TRY(for_each_run(committed, copy_rest));
  CODECFS_ASSIGN(const uint64_t grown, bytes_of(source));
  if (grown < committed.size()) CODECFS_TRY(io.truncate(source, committed.size()));
  CODECFS_TRY(sync());
  CODECFS_TRY(for_each_run(committed, [&](uint64_t first, uint64_t end) -> Result<> {
    return copier.copy(std::max(first, superblock), std::min(end, superblock_end));
  }));
  if (grown > committed.size()) CODECFS_TRY(io.truncate(source, committed.size()));
  return sync();
}

}  // namespace codecfs::hdf5
