#include "backends/hdf5/compact/compact_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/hdf5/compact/file_compare.h"
#include "backends/hdf5/compact/file_copy.h"
#include "backends/hdf5/compact/run_apart.h"
#include "backends/hdf5/format/family_files.h"
#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/library/open_file_name.h"
#include "backends/hdf5/wal/file_driver.h"
#include "backends/hdf5/wal/survivor.h"
#include "backends/hdf5/wal/write_log.h"
#include "base/directory_stream.h"
#include "base/file_name.h"
#include "base/file_owner.h"
#include "base/file_replace.h"
#include "base/progress_reporter.h"

namespace codecfs::hdf5 {
namespace {

/// The locked file to compact, and its directory.
struct Locked {
  File directory;
  std::string name;
  File file;
  struct stat status{};
};

Result<struct stat> status_of(const File& file) {
  struct stat status{};
  if (::fstat(file.fd.get(), &status) != 0) return fail_errno(errno, "{}", file.path);
  return status;
}

/// Whether the name still refers to the opened file, and no program has written to it.
Result<> check_unchanged(const Locked& locked) {
  struct stat now{};
  if (::fstatat(locked.directory.fd.get(), locked.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, "{}", locked.file.path);
  const struct stat& before = locked.status;
  const bool same = now.st_dev == before.st_dev && now.st_ino == before.st_ino && now.st_size == before.st_size &&
                    now.st_mtim.tv_sec == before.st_mtim.tv_sec && now.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
  if (!same) return fail(ESTALE, "{}: was changed or replaced concurrently; try again", locked.file.path);
  return {};
}

Result<> take_lock(const File& file) {
  int status = 0;
  do {
    status = ::flock(file.fd.get(), LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  if (status == 0) return {};
  if (errno != EWOULDBLOCK) return fail_errno(errno, "{}: cannot be locked, so it is not compacted", file.path);
  return fail(EBUSY,
              "{}: another program has it open with a lock (a codecfs that mounts it, or an HDF5 program); end that "
              "first",
              file.path);
}

Result<> check_can_be_replaced(const Locked& locked) {
  const std::string& path = locked.file.path;
  if (!S_ISREG(locked.status.st_mode)) return fail(EINVAL, "{}: is not a regular file", path);
  // A log that appeared after the recovery: another mount wrote the file.
  if (log_exists(locked.directory, log_name_for(locked.name)))
    return fail(EBUSY, "{}: a log of changes exists beside it; try again", path);
  CODECFS_ASSIGN(const std::optional<FamilyFiles> family,
                 FamilyFiles::open(locked.directory, locked.name, locked.file));
  if (family)
    return fail(
        EOPNOTSUPP,
        "{}: it is the first of a family of {} files (HDF5's family driver); make one file of them: h5repack {} "
        "ONE.h5",
        path, family->count(), family->pattern());
  if (marked_as_open(locked.file.fd.get()))
    return fail(EROFS, "{}: it is marked as open for writing (h5clear -s removes the mark)", path);
  if (locked.status.st_nlink > 1)
    return fail(EOPNOTSUPP, "{}: it has {} names (hard links), and a new file would have only this one", path,
                locked.status.st_nlink);
  return {};
}

Result<Locked> lock_source(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "{}", path);
  const std::string where = real.get();
  await_survivor(where);
  CODECFS_TRY(recover_log(where));
  const size_t slash = where.rfind('/');
  Locked locked;
  locked.name = where.substr(slash + 1);
  CODECFS_ASSIGN(locked.directory, open_directory(slash == 0 ? "/" : where.substr(0, slash)));
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  locked.file = {.fd = UniqueFd(::openat(locked.directory.fd.get(), locked.name.c_str(), kFlags)), .path = where};
  if (!locked.file.fd) return fail_errno(errno, "cannot open {} for writing", where);
  CODECFS_TRY(take_lock(locked.file));
  CODECFS_ASSIGN(locked.status, status_of(locked.file));
  CODECFS_TRY(check_unchanged(locked));
  CODECFS_TRY(check_can_be_replaced(locked));
  return locked;
}

/// Upper bound: the copy is at most as large as the file.
uint64_t bytes_needed(const Locked& locked) {
  return std::min<uint64_t>(static_cast<uint64_t>(locked.status.st_size),
                            static_cast<uint64_t>(locked.status.st_blocks) * 512);
}

Result<> check_space(const Locked& locked) {
  struct statvfs filesystem{};
  if (::fstatvfs(locked.directory.fd.get(), &filesystem) != 0) return {};
  const uint64_t room = uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  if (room < bytes_needed(locked))
    return fail(ENOSPC, "{}: a copy of it needs up to {} bytes of disk space, and {} are free", locked.file.path,
                bytes_needed(locked), room);
  return {};
}

constexpr size_t kNumbers = 2 * 20 + 1;  // bytes after the prefix: a process and a count

std::string temporary_prefix(const std::string& name) {
  const std::string longest = fitted_name(".", name, ".codecfs-" + std::string(kNumbers, '0'));
  return longest.substr(0, longest.size() - kNumbers);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_temporary(std::string_view name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const size_t dash = name.find('-');
  return dash != std::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

/// Removes the temporary files of killed compactions. The exclusive lock on the source guarantees that none of them is
/// in use. Ignores errors.
void remove_leftovers(const Locked& locked, FileIo& io) {
  const std::string prefix = temporary_prefix(locked.name);
  const int fd = ::openat(locked.directory.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const DirectoryStream listing(fd < 0 ? nullptr : ::fdopendir(fd));
  if (!listing) return;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (is_temporary(entry->d_name, prefix)) names.emplace_back(entry->d_name);
  }
  for (const std::string& name : names) (void)io.unlink(locked.directory, name);
}

/// A new file that is removed again unless it is renamed over another one.
class NewFile {
 public:
  static Result<NewFile> create(const Locked& locked, FileIo& io) {
    static std::atomic<unsigned> count = 0;
    const std::string name = fmt::format("{}{}-{}", temporary_prefix(locked.name), ::getpid(), count++);
    CODECFS_ASSIGN(File file, io.create(locked.directory, name, S_IRUSR | S_IWUSR));
    return NewFile(io, locked, name, std::move(file));
  }
  NewFile(NewFile&& other) noexcept
      : io_(other.io_), locked_(other.locked_), name_(std::exchange(other.name_, "")), file_(std::move(other.file_)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (!name_.empty()) (void)io_->unlink(locked_->directory, name_);
  }

  [[nodiscard]] const File& file() const { return file_; }

  Result<> replace() {
    CODECFS_TRY(replace_file(*io_, locked_->directory, {.name = name_, .file = file_},
                             {.name = locked_->name, .file = locked_->file}));
    name_.clear();
    return io_->sync(locked_->directory);
  }

 private:
  NewFile(FileIo& io, const Locked& locked, std::string name, File file)
      : io_(&io), locked_(&locked), name_(std::move(name)), file_(std::move(file)) {}

  FileIo* io_;
  const Locked* locked_;
  std::string name_;
  File file_;
};

/// We have the lock on the source, other programs do not know the copy, and some filesystems have no locks.
void allow_without_lock(hid_t access) {
  hbool_t no = false;
  if (H5Pexist(access, "use_file_locking") > 0) H5Pset(access, "use_file_locking", &no);
}

/// Opens the source in libhdf5 through its descriptor, not its path. There is no log, so no overlay is needed.
class OpenedSource {
 public:
  static Result<OpenedSource> open(const Locked& locked) {
    OpenedSource source;
    source.size_ = static_cast<uint64_t>(locked.status.st_size);
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    allow_without_lock(access.get());
    source.file_ = Handle(H5Fopen(name_of_open(locked.file).c_str(), H5F_ACC_RDONLY, access.get()));
    if (!source.file_) return fail_library(EIO, "it cannot be opened as HDF5");
    return source;
  }

  [[nodiscard]] hid_t id() const { return file_.get(); }
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  OpenedSource() = default;
  uint64_t size_ = 0;
  Handle file_;
};

/// Reserve the space before libhdf5 writes, because it handles ENOSPC badly.
Result<> reserve(const Locked& locked, const File& to) {
  if (::fallocate(to.fd.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_needed(locked))) == 0) return {};
  if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return {};  // the filesystem does not support fallocate
  return fail_errno(errno, "{}: a copy of it needs up to {} bytes of disk space", locked.file.path,
                    bytes_needed(locked));
}

Result<> copy_into(const OpenedSource& source, const Locked& locked, const File& file) {
  const std::string& path = file.path;
  CODECFS_ASSIGN(const Handle creation, creation_properties(source.id()));
  CODECFS_ASSIGN(const Handle access, access_properties(source.id()));
  allow_without_lock(access.get());
  Handle to(H5Fcreate(name_of_open(file).c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  if (!to) return fail_library(EIO, "{} cannot be made", path);
  CODECFS_TRY(reserve(locked, file));
  CODECFS_TRY(copy_objects(source.id(), to.get(), source.size()));
  if (H5Fflush(to.get(), H5F_SCOPE_LOCAL) < 0 || !to.close()) return fail_library(EIO, "{} cannot be written", path);
  return {};
}

Result<> check_copy(const OpenedSource& source, const File& file) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  allow_without_lock(access.get());
  const Handle copy(H5Fopen(name_of_open(file).c_str(), H5F_ACC_RDONLY, access.get()));
  if (!copy) return fail_library(EIO, "the copy {} cannot be opened", file.path);
  return compare_files(source.id(), copy.get(), source.size());
}

/// The user block before the signature belongs to the user.
Result<> copy_user_block(const Locked& locked, const File& to, FileIo& io) {
  uint64_t left = find_signature(locked.file.fd.get()).value_or(0);
  std::vector<std::byte> buffer(std::min<uint64_t>(left, kCopyBytes));
  for (uint64_t at = 0; left > 0;) {
    const MutableBytes part = MutableBytes(buffer).first(std::min<uint64_t>(left, buffer.size()));
    CODECFS_ASSIGN(const size_t got, read_at(locked.file, at, part));
    if (got < part.size()) return fail(EIO, "{}: became shorter", locked.file.path);
    CODECFS_TRY(io.write(to, at, part));
    at += got;
    left -= got;
  }
  return {};
}

std::string in_words(uint64_t bytes) {
  constexpr uint64_t kThousand = 1000;
  if (bytes < kThousand) return fmt::format("{} bytes", bytes);
  double amount = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    if (amount < static_cast<double>(kThousand)) break;
    amount /= static_cast<double>(kThousand);
    unit = next;
  }
  return fmt::format("{:.1f} {}", amount, unit);
}

/// Creates, verifies and closes the copy, unless it is not smaller.
Result<> make_copy(const Locked& locked, const File& to) {
  const LibraryRead library;
  CODECFS_ASSIGN(const OpenedSource source, OpenedSource::open(locked));
  CODECFS_TRY(copy_into(source, locked, to));
  CODECFS_ASSIGN(const struct stat status, status_of(to));
  if (status.st_size >= locked.status.st_size) return {};
  return check_copy(source, to);
}

/// Calls make_copy() in a child process, which may crash.
Result<> make_copy_apart(const Locked& locked, const File& to, const std::function<bool()>& cancelled) {
  const Result<> made = run_apart([&] { return make_copy(locked, to); }, cancelled);
  if (made) return {};
  std::string reason = made.error().reason;
  std::ranges::replace(reason, '\n', ' ');
  return fail(made.error().code, "{}: {}", locked.file.path, reason);
}

/// Copies what libhdf5 does not copy, and syncs.
Result<> complete_copy(const Locked& locked, const File& to, FileIo& io) {
  CODECFS_ASSIGN(const struct stat status, status_of(to));
  CODECFS_TRY(io.truncate(to, static_cast<uint64_t>(status.st_size)));  // frees the reserved space beyond the end
  CODECFS_TRY(copy_user_block(locked, to, io));
  if (const Result<> given = make_like(to.fd.get(), locked.file.fd.get(), Attributes::user); !given)
    return fail(given.error().code, "{}: {}", to.path, given.error().reason);
  return io.sync(to);
}

/// compact_file() without the handling of exceptions.
Result<std::string> compact(const std::string& path, FileIo& io, const std::function<bool()>& cancelled) {
  CODECFS_ASSIGN(const Locked locked, lock_source(path));
  remove_leftovers(locked, io);
  CODECFS_TRY(check_space(locked));
  ProgressReporter work(fmt::format("compacting {}", path));
  work.expect(3 * bytes_needed(locked));  // each stored byte is copied, and then read twice to compare
  CODECFS_ASSIGN(NewFile copy, NewFile::create(locked, io));
  CODECFS_TRY(make_copy_apart(locked, copy.file(), cancelled));
  const auto before = static_cast<uint64_t>(locked.status.st_size);
  CODECFS_ASSIGN(const struct stat status, status_of(copy.file()));
  const auto after = static_cast<uint64_t>(status.st_size);
  if (after >= before)
    return fmt::format("{}: {} ({} bytes), cannot become smaller; unchanged", path, in_words(before), before);
  CODECFS_TRY(complete_copy(locked, copy.file(), io));
  CODECFS_TRY(check_unchanged(locked));
  CODECFS_TRY(copy.replace());
  return fmt::format("{}: {} became {} ({} bytes became {})", path, in_words(before), in_words(after), before, after);
}

}  // namespace

Result<std::string> compact_file(const std::string& path, FileIo& io, const std::function<bool()>& cancelled) {
  try {
    return compact(path, io, cancelled);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: not enough memory to compact it", path);
  } catch (const std::exception& error) {
    return fail(EIO, "{}: {}", path, error.what());
  }
}

}  // namespace codecfs::hdf5
