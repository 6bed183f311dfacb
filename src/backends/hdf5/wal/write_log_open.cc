// Opens a source with the log of a killed writer, and acquires the right to write.

#include "backends/hdf5/wal/write_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/hdf5/wal/write_log_checkpoint.h"

namespace codecfs::hdf5 {
namespace {

int try_lock(const File& file, int kind) {
  int status = 0;
  do {
    status = ::flock(file.fd.get(), kind | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

}  // namespace

LoggedFile::LoggedFile(FileIo& io, File directory, std::string name, File source)
    : io_(io), directory_(std::move(directory)), name_(std::move(name)), source_(std::move(source)) {}

LoggedFile::~LoggedFile() = default;

Result<std::unique_ptr<LoggedFile>> LoggedFile::open(const std::string& path, FileIo& io) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "{}", path);
  const std::string where = real.get();
  const size_t slash = where.rfind('/');
  const std::string name = where.substr(slash + 1);
  CODECFS_ASSIGN(File directory, open_directory(slash == 0 ? "/" : where.substr(0, slash)));
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a FIFO must not block
  File source{.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), kFlags)), .path = where};
  if (!source.fd) return fail_errno(errno, "{}", where);
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", where);
  if (!S_ISREG(status.st_mode)) return fail(EINVAL, "{}: is not a regular file", where);

  std::unique_ptr<LoggedFile> file(new LoggedFile(io, std::move(directory), name, std::move(source)));
  file->locked_by_another_ = try_lock(file->source_, LOCK_SH) == EWOULDBLOCK;
  const bool is_marked = has_log_mark(file->source_);
  if (file->locked_by_another_ && (is_marked || log_exists(file->directory_, log_name_for(name)))) {
    return fail(EBUSY, "{}: another codecfs is writing it", where);
  }
  CODECFS_ASSIGN(file->identity_, identify(file->source_));
  CODECFS_ASSIGN(file->family_, FamilyFiles::open(file->directory_, name, file->source_));
  CODECFS_ASSIGN(FoundLog found, find_log(file->directory_, name, file->source_, LogAccess::read));
  file->is_marked_ = is_marked;
  file->missing_ = std::move(found.missing);
  file->old_log_ = std::move(found.committed);
  if (const auto& log = file->old_log_) {
    file->found_ = {.pending = true, .transactions = log->transactions, .bytes = log->bytes};
    file->show(log->overlay, log->file.fd.get(), -1);
  } else {
    file->show(Overlay(file->family_ ? file->family_->size() : file->identity_.size), -1, -1);
    file->left_space_ = read_left_space(file->source_, file->identity_);
  }
  return file;
}

Result<std::unique_ptr<LoggedFile>> LoggedFile::open_fetched(const std::string& name,
                                                             std::shared_ptr<FetchedFile> file) {
  File source{.fd = UniqueFd(::fcntl(file->fd(), F_DUPFD_CLOEXEC, 0)), .path = name};
  struct stat status;
  if (!source.fd || ::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", name);
  std::unique_ptr<LoggedFile> opened(new LoggedFile(real_file_io(), {}, name, std::move(source)));
  opened->fetched_ = std::move(file);
  opened->show(Overlay(static_cast<uint64_t>(status.st_size)), -1, -1);
  return opened;
}

Result<> LoggedFile::lock_for_writing() {
  File file{.fd = UniqueFd(::openat(directory_.fd.get(), name_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)),
            .path = source_.path};
  if (!file.fd) {
    // ENOENT means replaced: the open file has no name beside which a log could be created.
    return fail_errno(errno == ENOENT || errno == ELOOP ? ESTALE : errno, "cannot open {} for writing", file.path);
  }
  // Release our own shared lock, which would conflict: flock locks belong to open files, not to processes.
  ::flock(source_.fd.get(), LOCK_UN);
  const int code = try_lock(file, LOCK_EX);
  if (code != 0) {
    try_lock(source_, LOCK_SH);
    if (code == EWOULDBLOCK) {
      return fail(EBUSY,
                  "{}: another program has it open with a lock (a codecfs that mounts it, or an HDF5 program); "
                  "end that first",
                  file.path);
    }
    return fail_errno(code, "{}: cannot be locked, so it is not written", file.path);
  }
  writable_ = std::move(file);
  return {};
}

void LoggedFile::unlock() {
  if (writable_.fd) ::flock(writable_.fd.get(), LOCK_UN);  // the lock may have a duplicate in another process
  writable_ = {};
  try_lock(source_, LOCK_SH);
}

Result<FoundLog> LoggedFile::find_unchanged() const {
  CODECFS_ASSIGN(const SourceIdentity now, identify(writable_));
  if (now != identity_)
    return fail(ESTALE, "{}: was changed or replaced by another program; mount it again", source_.path);
  CODECFS_ASSIGN(FoundLog found, find_log(directory_, name_, writable_, LogAccess::write));
  const auto& log = found.committed;
  const bool same = log.has_value() == old_log_.has_value() &&
                    (!log || (log->header.salt == old_log_->header.salt && log->sequence == old_log_->sequence));
  if (!same) return fail(ESTALE, "{}: was written by another codecfs; mount it again", source_.path);
  if (found.missing) return std::unexpected(*found.missing);
  return found;
}

Result<> LoggedFile::recover_found(const FoundLog& found_at) {
  // The source must not be overwritten with frames that exist only in the page cache: write them back, or, if an
  // earlier sync failed, drop the cached pages and read the frames from the disk.
  CODECFS_TRY(io_.sync_data(old_log_->file));
  (void)::posix_fadvise(old_log_->file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  CODECFS_ASSIGN(auto found, read_log(found_at.directory, found_at.name, writable_, LogAccess::write));
  if (!found || found->sequence != old_log_->sequence) {
    return fail(EIO, "{}: what was committed last did not reach the disk; mount the source again", old_log_->file.path);
  }
  const Overlay committed = found->overlay;
  LogFile log(io_, std::move(*found), source_);
  const Result<> applied = log.apply(committed, writable_);
  // Update the identity even on failure, so that recovery can be retried.
  CODECFS_ASSIGN(identity_, identify(writable_));
  if (!applied) return std::unexpected(applied.error());

  // The source now contains the log; the buffered writes overlay it.
  Overlay overlay(committed.size());
  if (buffer_dirty_) {
    overlay.set_size(std::min(buffered_floor_, committed.size()));
    for (const auto& [start, extent] : buffered_.extents())
      overlay.write(start, extent.end - start, extent.origin, extent.position);
    overlay.set_size(readable_.overlay.size());
  }
  show(std::move(overlay), -1, buffer_.get());
  old_log_.reset();
  return {};
}

Result<> LoggedFile::clear_log() {
  CODECFS_ASSIGN(const FoundLog found, find_unchanged());
  if (old_log_) CODECFS_TRY(recover_found(found));
  CODECFS_TRY(remove_log_mark(io_, writable_));
  is_marked_ = false;
  if (!found.name.empty() && log_exists(found.directory, found.name)) {
    CODECFS_TRY(io_.unlink(found.directory, found.name));
    CODECFS_TRY(io_.sync(found.directory));
  }
  // A file of this name that is not our log would be in the way of the new log.
  const std::string log_name = log_name_for(name_);
  if (!log_exists(directory_, log_name)) return {};
  CODECFS_ASSIGN(const auto other, read_log(directory_, log_name, writable_, LogAccess::read));
  if (other)
    return fail(EBUSY, "{}/{}: the name of the log is taken by the log of another file; move that away",
                directory_.path, log_name);
  CODECFS_TRY(io_.unlink(directory_, log_name));
  return io_.sync(directory_);
}

Result<> LoggedFile::begin_writing() {
  if (log_) return {};
  if (!old_log_) CODECFS_TRY(relocate_log());
  const std::string log_name = log_name_for(name_);
  CODECFS_TRY(lock_for_writing());
  Result<> cleared = clear_log();
  if (!cleared) {
    unlock();
    return cleared;
  }
  auto log = LogFile::create(io_, directory_, log_name, source_, identity_);
  if (!log) {
    unlock();
    return pass_on(log);
  }
  auto appended = append_buffered(**log, identity_.size);
  if (!appended) {
    // The log has no commit: if it remains, the next writer removes it.
    if (io_.unlink(directory_, log_name)) (void)io_.sync(directory_);
    unlock();
    return pass_on(appended);
  }
  Overlay overlay(identity_.size);
  if (buffer_dirty_) {
    overlay.set_size(std::min(buffered_floor_, identity_.size));
    for (const Appended& part : *appended) overlay.write(part.offset, part.length, Overlay::Origin::log, part.position);
    overlay.set_size(readable_.overlay.size());
  }
  if (Result<> marked = mark_source(**log); !marked) {
    // Keep the log if its mark could not be removed.
    if (!has_log_mark(writable_) && io_.unlink(directory_, log_name)) (void)io_.sync(directory_);
    unlock();
    return marked;
  }
  {
    const std::lock_guard lock(sync_mutex_);
    log_ = std::move(*log);
  }
  has_checkpointed_ = false;
  rewriting_allocates_ = overwriting_allocates(writable_);
  show(std::move(overlay), log_->file().fd.get(), -1);
  reset_buffer();
  if (!remove_left_space(io_, writable_)) left_space_ = {};  // a stale attribute could be used again
  return {};
}

/// Marks the source, so that the log is found under another name of the source.
Result<> LoggedFile::mark_source(const LogFile& log) {
  const Result<> marked = set_log_mark(io_, writable_, log.id(), log.file());
  is_marked_ = has_log_mark(writable_);
  if (marked) return {};
  struct stat status;
  if (is_marked_ || ::fstat(writable_.fd.get(), &status) != 0) return marked;
  if (status.st_nlink <= 1) return {};  // found beside the source, under its name or by its content
  return fail(EMLINK,
              "{}: it has {} names (hard links), and its log could not be found from all of them, because the "
              "attribute {} cannot be set ({}); write a copy of it",
              source_.path, static_cast<uint64_t>(status.st_nlink), kLogMark, marked.error().reason);
}

Result<LogRecovery> check_log(const std::string& path) {
  CODECFS_ASSIGN(const auto file, LoggedFile::open(path));
  if (file->missing_) return std::unexpected(*file->missing_);
  return file->found();
}

Result<LogRecovery> recover_log(const std::string& path, FileIo& io) {
  CODECFS_ASSIGN(const auto file, LoggedFile::open(path, io));
  if (file->missing_) return std::unexpected(*file->missing_);
  const bool is_clean =
      !file->old_log_ && !file->is_marked_ && !log_exists(file->directory_, log_name_for(file->name_));
  if (is_clean) return file->found();
  CODECFS_TRY(file->lock_for_writing());
  CODECFS_TRY(file->clear_log());
  return file->found();
}

}  // namespace codecfs::hdf5
