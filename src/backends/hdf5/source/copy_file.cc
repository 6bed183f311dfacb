// Copies an HDF5 file with the kernel's help: shared blocks, copy_file_range(2), or reads and writes.

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "backends/api/source_copy.h"
#include "backends/hdf5/wal/file_driver.h"
#include "backends/hdf5/wal/survivor.h"
#include "backends/hdf5/wal/write_log.h"
#include "base/file_io.h"
#include "base/progress_reporter.h"

namespace codecfs {
namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;

class Copying {
 public:
  Copying(const hdf5::LoggedFile& from, const std::string& name, const File& to, const std::function<bool()>& cancelled)
      : from_(from), to_(to), cancelled_(cancelled), progress_("copying " + name, ProgressReporter::Unit::bytes) {}

  Result<> run() {
    const uint64_t size = from_.size();
    const bool is_plain = !from_.found().pending;  // else the log has some of the bytes
    if (cancelled_()) return fail(ECANCELED, "interrupted");
    if (is_plain && ioctl(to_.fd.get(), FICLONE, from_.fd()) == 0) return {};
    progress_.expect(size);
    for (uint64_t at = 0; at < size;) {
      const auto [begin, end] = is_plain ? next_data(at, size) : std::pair(at, size);
      if (begin >= size) break;
      CODECFS_TRY(copy(begin, end, is_plain));
      at = end;
    }
    FileIo& io = real_file_io();
    return io.truncate(to_, size);  // it may end with a hole
  }

 private:
  /// The next range at or after `at` that is no hole.
  [[nodiscard]] std::pair<uint64_t, uint64_t> next_data(uint64_t at, uint64_t size) const {
    const off_t begin = lseek(from_.fd(), static_cast<off_t>(at), SEEK_DATA);
    if (begin < 0) return errno == ENXIO ? std::pair(size, size) : std::pair(at, size);
    const off_t end = lseek(from_.fd(), begin, SEEK_HOLE);
    return {static_cast<uint64_t>(begin), end <= begin ? size : std::min(static_cast<uint64_t>(end), size)};
  }

  Result<> copy(uint64_t at, uint64_t end, bool is_plain) {
    while (at < end) {
      if (cancelled_()) return fail(ECANCELED, "interrupted");
      const uint64_t length = std::min(end - at, kPiece);
      uint64_t done = is_plain ? copy_in_kernel(at, length) : 0;
      if (done == 0) {
        CODECFS_ASSIGN(done, copy_by_hand(at, length));
      }
      at += done;
      progress_.add(done);
    }
    return {};
  }

  /// 0 if it fails; copy_by_hand() then finds the reason.
  [[nodiscard]] uint64_t copy_in_kernel(uint64_t at, uint64_t length) const {
    auto from = static_cast<off_t>(at);
    off_t to = from;
    const ssize_t count = copy_file_range(from_.fd(), &from, to_.fd.get(), &to, length, 0);
    return static_cast<uint64_t>(std::max<ssize_t>(count, 0));
  }

  Result<uint64_t> copy_by_hand(uint64_t at, uint64_t length) {
    buffer_.resize(kPiece);
    const MutableBytes part = MutableBytes(buffer_).first(length);
    CODECFS_ASSIGN(const size_t count, from_.read(at, part));
    if (count == 0) return fail(EIO, "the file became shorter while it was copied");
    CODECFS_TRY(real_file_io().write(to_, at, part.first(count)));
    return count;
  }

  const hdf5::LoggedFile& from_;
  const File& to_;
  const std::function<bool()>& cancelled_;
  ProgressReporter progress_;
  std::vector<std::byte> buffer_;
};

Result<struct stat> status_of(int fd, const std::string& path) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return fail_errno(errno, "{}", path);
  return status;
}

bool are_same(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

}  // namespace

Result<> copy_hdf5_file(const std::string& from, const std::string& to, const std::function<bool()>& cancelled) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(from.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "{}", from);
  hdf5::await_survivor(real.get());
  CODECFS_ASSIGN(const std::unique_ptr<hdf5::LoggedFile> source, hdf5::LoggedFile::open(real.get()));
  if (source->family())
    return fail(EOPNOTSUPP,
                "{}: it is the first of a family of {} files (HDF5's family driver); make one file of them: h5repack "
                "{} ONE.h5",
                from, source->family()->count(), source->family()->pattern());
  if (source->locked_by_another()) return fail(EBUSY, "{}: another program has it open for writing", from);
  if (hdf5::marked_as_open(source->fd()))
    return fail(EROFS, "{}: it is marked as open for writing (h5clear -s removes the mark)", from);
  CODECFS_ASSIGN(const struct stat before, status_of(source->fd(), from));
  const File copy{UniqueFd(open(to.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)), to};
  if (!copy.fd) return fail_errno(errno, "{}", to);
  const Result<> copied = Copying(*source, from, copy, cancelled).run();
  if (!copied) return fail(copied.error().code, "copying {}: {}", from, copied.error().reason);
  CODECFS_TRY(real_file_io().sync(copy));
  CODECFS_ASSIGN(const struct stat after, status_of(source->fd(), from));
  if (!are_same(before.st_mtim, after.st_mtim) || before.st_size != after.st_size)
    return fail(ESTALE, "{}: was changed while it was copied; try again", from);
  return {};
}

}  // namespace codecfs
