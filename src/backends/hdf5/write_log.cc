#include "backends/hdf5/write_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kLargestOffset = std::numeric_limits<off_t>::max();

int try_lock(const File& file, int kind) {
  int status = 0;
  do {
    status = ::flock(file.fd.get(), kind | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

bool leads_to(const File& directory, const std::string& name, const File& file) {
  struct stat there;
  struct stat own;
  return ::fstatat(directory.fd.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file.fd.get(), &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

/// Where an open file is now, as the kernel knows it; something else where it was deleted.
std::string present_path(const File& file) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", file.fd.get()).c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
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
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a fifo must not block us
  File source{.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), kFlags)), .path = where};
  if (!source.fd) return fail_errno(errno, "{}", where);
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", where);
  if (!S_ISREG(status.st_mode)) return fail(EINVAL, "{}: is no regular file", where);

  std::unique_ptr<LoggedFile> file(new LoggedFile(io, std::move(directory), name, std::move(source)));
  const std::string log_name = log_name_for(name);
  file->locked_by_another_ = try_lock(file->source_, LOCK_SH) == EWOULDBLOCK;
  if (file->locked_by_another_ && log_exists(file->directory_, log_name)) {
    return fail(EBUSY, "{}: another codecfs is writing it", where);
  }
  CODECFS_ASSIGN(file->identity_, identify(file->source_));
  CODECFS_ASSIGN(file->old_log_, read_log(file->directory_, log_name, file->source_, LogAccess::read));
  if (const auto& log = file->old_log_) {
    file->found_ = {.pending = true, .transactions = log->transactions, .bytes = log->bytes};
    file->show(log->overlay, log->file.fd.get(), -1);
  } else {
    file->show(Overlay(file->identity_.size), -1, -1);
  }
  return file;
}

Result<size_t> LoggedFile::read(uint64_t offset, MutableBytes to) const {
  std::unique_lock turn(turn_);
  const std::shared_lock lock(readable_mutex_);
  turn.unlock();
  const Overlay& overlay = readable_.overlay;
  if (offset >= overlay.size()) return 0;
  to = to.first(static_cast<size_t>(std::min<uint64_t>(to.size(), overlay.size() - offset)));
  size_t done = 0;
  while (done < to.size()) {
    const Overlay::Piece piece = overlay.piece_at(offset + done);
    const MutableBytes part = to.subspan(done).first(std::min<uint64_t>(piece.length, to.size() - done));
    int fd = source_.fd.get();
    if (piece.origin == Overlay::Origin::log) fd = readable_.log;
    if (piece.origin == Overlay::Origin::aside) fd = readable_.aside;
    if (piece.origin == Overlay::Origin::zeros) {
      std::memset(part.data(), 0, part.size());
    } else {
      CODECFS_ASSIGN(const size_t got, read_at(fd, source_.path, piece.position, part));
      if (got < part.size()) {
        return fail(EIO, "{}: {} bytes at {} are not there any more: somebody cut the file or its log", source_.path,
                    part.size(), offset + done);
      }
    }
    done += part.size();
  }
  return done;
}

uint64_t LoggedFile::size() const {
  std::unique_lock turn(turn_);
  const std::shared_lock lock(readable_mutex_);
  turn.unlock();
  return readable_.overlay.size();
}

template <class Change>
void LoggedFile::change(const Change& change) {
  const std::lock_guard turn(turn_);
  const std::unique_lock lock(readable_mutex_);
  change(readable_);
}

void LoggedFile::show(Overlay overlay, int log, int aside) {
  Readable next{.overlay = std::move(overlay), .log = log, .aside = aside};
  change([&next](Readable& readable) { std::swap(readable, next); });
}

Result<> LoggedFile::keep_aside(uint64_t offset, Bytes bytes) {
  if (!aside_) aside_ = UniqueFd(::memfd_create("codecfs-kept-aside", MFD_CLOEXEC));
  if (!aside_) return fail_errno(errno, "no memory to keep {} bytes of {}", bytes.size(), source_.path);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(aside_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(aside_bytes_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return fail_errno(count < 0 ? errno : ENOSPC, "no memory to keep {} bytes of {}", bytes.size(), source_.path);
    }
    done += static_cast<size_t>(count);
  }
  if (!aside_dirty_) aside_floor_ = readable_.overlay.size();
  aside_dirty_ = true;
  change([&](Readable& readable) {
    readable.aside = aside_.get();
    readable.overlay.write(offset, bytes.size(), Overlay::Origin::aside, aside_bytes_);
  });
  aside_bytes_ += bytes.size();
  return {};
}

Result<> LoggedFile::write(uint64_t offset, Bytes bytes) {
  if (offset > kLargestOffset || bytes.size() > kLargestOffset - offset) {
    return fail_errno(EFBIG, "{}: {} bytes at {}", source_.path, bytes.size(), offset);
  }
  if (bytes.empty()) return {};
  if (!log_ || held_) return keep_aside(offset, bytes);
  CODECFS_ASSIGN(const uint64_t position, log_->append(FrameKind::data, offset, bytes));
  change([&](Readable& readable) { readable.overlay.write(offset, bytes.size(), Overlay::Origin::log, position); });
  return {};
}

Result<> LoggedFile::set_size(uint64_t bytes) {
  if (bytes > kLargestOffset) return fail_errno(EFBIG, "{}: a size of {}", source_.path, bytes);
  const uint64_t now = readable_.overlay.size();
  if (bytes == now) return {};
  if (log_ && !held_) {
    CODECFS_TRY(log_->append(FrameKind::size, bytes, {}));
  } else {
    if (!aside_dirty_) aside_floor_ = now;
    aside_floor_ = std::min(aside_floor_, bytes);
    aside_dirty_ = true;
  }
  change([bytes](Readable& readable) { readable.overlay.set_size(bytes); });
  return {};
}

Result<> LoggedFile::lock_for_writing() {
  File file{.fd = UniqueFd(::openat(directory_.fd.get(), name_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)),
            .path = source_.path};
  if (!file.fd) {
    // Gone is replaced: the file that is open has no name to put a log beside.
    return fail_errno(errno == ENOENT || errno == ELOOP ? ESTALE : errno, "cannot open {} for writing", file.path);
  }
  // Our own shared lock would be in the way: locks belong to open files, not to processes.
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
  writable_ = {};
  try_lock(source_, LOCK_SH);
}

Result<> LoggedFile::check_unchanged() const {
  CODECFS_ASSIGN(const SourceIdentity now, identify(writable_));
  if (now != identity_)
    return fail(ESTALE, "{}: was changed or replaced by somebody else; mount it again", source_.path);
  CODECFS_ASSIGN(const auto log, read_log(directory_, log_name_for(name_), writable_, LogAccess::write));
  const bool same = log.has_value() == old_log_.has_value() &&
                    (!log || (log->header.salt == old_log_->header.salt && log->sequence == old_log_->sequence));
  if (!same) return fail(ESTALE, "{}: was written by another codecfs; mount it again", source_.path);
  return {};
}

Result<> LoggedFile::recover_found() {
  const std::string log_name = log_name_for(name_);
  // Frames that only the page cache has must not be relied on while the source is overwritten: what can be written is
  // written, and what a failed sync made look written is dropped and read from the disk.
  CODECFS_TRY(io_.sync_data(old_log_->file));
  (void)::posix_fadvise(old_log_->file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  CODECFS_ASSIGN(auto found, read_log(directory_, log_name, writable_, LogAccess::write));
  if (!found || found->sequence != old_log_->sequence) {
    return fail(EIO, "{}: what was committed last did not reach the disk; mount the source again", old_log_->file.path);
  }
  const Overlay committed = found->overlay;
  LogFile log(io_, std::move(*found));
  const Result<> applied = log.apply(committed, writable_);
  // Also where that failed, so that it can be tried again.
  CODECFS_ASSIGN(identity_, identify(writable_));
  if (!applied) return std::unexpected(applied.error());

  // From here on the source has it, and what was kept aside lies over that.
  Overlay overlay(committed.size());
  if (aside_dirty_) {
    overlay.set_size(std::min(aside_floor_, committed.size()));
    for (const auto& [start, extent] : readable_.overlay.extents()) {
      if (extent.origin == Overlay::Origin::aside) {
        overlay.write(start, extent.end - start, extent.origin, extent.position);
      }
    }
    overlay.set_size(readable_.overlay.size());
  }
  show(std::move(overlay), -1, aside_.get());
  old_log_.reset();
  return {};
}

Result<> LoggedFile::clear_log() {
  CODECFS_TRY(check_unchanged());
  if (old_log_) CODECFS_TRY(recover_found());
  const std::string log_name = log_name_for(name_);
  if (!log_exists(directory_, log_name)) return {};
  CODECFS_TRY(io_.unlink(directory_, log_name));
  return io_.sync(directory_);
}

// `overlay`: the file before anything was kept aside.
Result<Overlay> LoggedFile::move_aside_into(LogFile& log, Overlay overlay) const {
  if (!aside_dirty_) return overlay;
  const auto set_size = [&](uint64_t size) -> Result<> {
    if (size == overlay.size()) return {};
    CODECFS_TRY(log.append(FrameKind::size, size, {}));
    overlay.set_size(size);
    return {};
  };
  CODECFS_TRY(set_size(std::min(aside_floor_, overlay.size())));
  std::vector<std::byte> buffer;
  for (const auto& [start, extent] : readable_.overlay.extents()) {
    if (extent.origin != Overlay::Origin::aside) continue;
    for (uint64_t at = start; at < extent.end;) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(extent.end - at, kCopyBytes));
      if (buffer.size() < part) buffer.resize(part);
      const MutableBytes bytes = MutableBytes(buffer).first(part);
      CODECFS_ASSIGN(const size_t got, read_at(aside_.get(), source_.path, extent.position + (at - start), bytes));
      if (got < part) return fail(EIO, "{}: what was kept aside is not there any more", source_.path);
      CODECFS_ASSIGN(const uint64_t position, log.append(FrameKind::data, at, bytes));
      overlay.write(at, part, Overlay::Origin::log, position);
      at += part;
    }
  }
  CODECFS_TRY(set_size(readable_.overlay.size()));
  return overlay;
}

Result<> LoggedFile::begin_writing() {
  if (log_) return {};
  if (!old_log_) CODECFS_TRY(follow());
  const std::string log_name = log_name_for(name_);
  CODECFS_TRY(lock_for_writing());
  Result<> cleared = clear_log();
  if (!cleared) {
    unlock();
    return cleared;
  }
  auto log = LogFile::create(io_, directory_, log_name, writable_, identity_);
  if (!log) {
    unlock();
    return pass_on(log);
  }
  auto overlay = move_aside_into(**log, Overlay(identity_.size));
  if (!overlay) {
    // Nothing in it was committed: if it stays, the next writer removes it.
    if (io_.unlink(directory_, log_name)) (void)io_.sync(directory_);
    unlock();
    return pass_on(overlay);
  }
  log_ = std::move(*log);
  show(std::move(*overlay), log_->file().fd.get(), -1);
  forget_aside();
  return {};
}

void LoggedFile::forget_aside() {
  aside_.reset();
  aside_bytes_ = 0;
  aside_dirty_ = false;
  held_.reset();
}

void LoggedFile::hold() {
  if (log_ && !held_) held_ = readable_.overlay;
}

Result<> LoggedFile::release() {
  if (!held_) return {};
  CODECFS_ASSIGN(Overlay overlay, move_aside_into(*log_, *held_));
  show(std::move(overlay), log_->file().fd.get(), -1);
  forget_aside();
  return {};
}

Result<> LoggedFile::reserve(uint64_t bytes, uint64_t more) {
  if (!log_) return {};
  CODECFS_TRY(log_->reserve(bytes));
  const uint64_t end = size() + more;
  if (end <= room_until_) return {};
  struct stat now;
  struct statvfs room;
  if (::fstat(writable_.fd.get(), &now) != 0 || ::fstatvfs(writable_.fd.get(), &room) != 0) return {};
  const auto there = static_cast<uint64_t>(now.st_size);
  const uint64_t growth = end > there ? end - there : 0;
  const uint64_t available = room.f_bavail * room.f_frsize;
  if (growth > available)
    return fail_errno(ENOSPC, "{}: it is to grow by {} bytes, and {} are free", source_.path, growth, available);
  // The log takes from the same room meanwhile.
  room_until_ = end + std::min((available - growth) / 4, uint64_t{8} << 20);
  return {};
}

Result<> LoggedFile::commit() {
  if (!log_) {
    if (aside_dirty_) return fail(EINVAL, "{}: a commit of what was kept aside", source_.path);
    return {};
  }
  if (log_->broken()) return std::unexpected(*log_->broken());
  if (held_) return fail(EINVAL, "{}: a commit of what is held in memory", source_.path);
  if (!log_->has_uncommitted()) return {};
  CODECFS_TRY(follow());
  return log_->commit();
}

Result<> LoggedFile::follow() {
  if (leads_to(directory_, name_, source_)) return {};
  const std::string path = present_path(source_);
  const size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? "" : path.substr(slash + 1);
  auto directory = open_directory(slash == 0 || slash == path.npos ? "/" : path.substr(0, slash));
  if (!directory || !leads_to(*directory, name, source_))
    return fail(ESTALE, "{}: was deleted or replaced by another program, and what was written to it is lost",
                source_.path);
  if (log_) {
    const std::string log_name = log_name_for(name);
    const Result<> moved = io_.move(directory_, log_name_for(name_), *directory, log_name);
    if (!moved && moved.error().code == EEXIST)
      return fail(EBUSY, "{}: was moved to {}, where {} is in the way, a log of another file", source_.path, path,
                  log_name);
    CODECFS_TRY(moved);
  }
  const File before = std::exchange(directory_, std::move(*directory));
  name_ = name;
  if (!log_) return {};
  CODECFS_TRY(io_.sync(directory_));
  return io_.sync(before);
}

bool LoggedFile::is_gone() const {
  struct stat own;
  return ::fstat(source_.fd.get(), &own) == 0 && own.st_nlink == 0;
}

Result<> LoggedFile::checkpoint() {
  if (!log_) return commit();
  if (log_->broken()) return std::unexpected(*log_->broken());
  if (log_->has_uncommitted() || held_) return fail(EINVAL, "{}: a checkpoint of what is not committed", source_.path);
  if (!log_->has_committed()) return {};
  CODECFS_TRY(log_->apply(readable_.overlay, writable_));
  show(Overlay(readable_.overlay.size()), log_->file().fd.get(), -1);
  log_->shorten();  // after the readers of the old map have gone
  room_until_ = 0;
  return {};
}

uint64_t LoggedFile::log_bytes() const { return log_ ? log_->bytes() : 0; }

Result<> LoggedFile::drop_uncommitted() {
  if (!log_->has_uncommitted() && !held_) return {};
  CODECFS_ASSIGN(auto found, read_log(directory_, log_name_for(name_), writable_, LogAccess::write));
  if ((found ? found->sequence : 0) != log_->committed_sequence()) {
    return fail(EIO, "{}: does not hold what was committed to it any more", log_->file().path);
  }
  if (!found) {
    CODECFS_ASSIGN(const SourceIdentity now, identify(writable_));
    show(Overlay(now.size), log_->file().fd.get(), -1);
    log_->restart();  // after the readers of the old map have gone
    forget_aside();
    return {};
  }
  Overlay committed = found->overlay;
  auto log = std::make_unique<LogFile>(io_, std::move(*found));
  show(std::move(committed), log->file().fd.get(), -1);
  log_ = std::move(log);
  forget_aside();
  return {};
}

void LoggedFile::drop_aside() {
  if (aside_dirty_) {
    show(old_log_ ? old_log_->overlay : Overlay(identity_.size), old_log_ ? old_log_->file.fd.get() : -1, -1);
  }
  forget_aside();
}

Result<> LoggedFile::rollback() {
  if (!log_) {
    drop_aside();
    return {};
  }
  if (log_->broken()) return std::unexpected(*log_->broken());
  return drop_uncommitted();
}

Result<> LoggedFile::finish() {
  if (!log_) {
    drop_aside();
    return {};
  }
  if (is_gone()) return give_up();
  if (log_->broken()) return std::unexpected(*log_->broken());
  (void)follow();  // the log is found beside the source if the checkpoint is cut short
  CODECFS_TRY(drop_uncommitted());
  if (log_->has_committed()) CODECFS_TRY(checkpoint());
  CODECFS_ASSIGN(identity_, identify(writable_));
  // The source has everything. Whether or not the log goes, nothing may be written to it now.
  return remove_log();
}

/// Nobody can have the source any more, so nothing is to be brought into it.
Result<> LoggedFile::give_up() {
  if (log_->has_committed())
    log::warning("{}: was deleted or replaced by another program: what was written to it went with it", source_.path);
  forget_aside();
  CODECFS_ASSIGN(identity_, identify(writable_));
  return remove_log();
}

/// The end of writing; the log is removed where it is ours still.
Result<> LoggedFile::remove_log() {
  Result<> removed;
  const std::string log_name = log_name_for(name_);
  if (leads_to(directory_, log_name, log_->file())) {
    removed = io_.unlink(directory_, log_name);
    if (removed) removed = io_.sync(directory_);
  }
  show(Overlay(identity_.size), -1, -1);
  log_.reset();
  unlock();
  return removed;
}

Result<LogRecovery> check_log(const std::string& path) {
  CODECFS_ASSIGN(const auto file, LoggedFile::open(path));
  return file->found();
}

Result<LogRecovery> recover_log(const std::string& path, FileIo& io) {
  CODECFS_ASSIGN(const auto file, LoggedFile::open(path, io));
  if (!log_exists(file->directory_, log_name_for(file->name_))) return file->found();
  CODECFS_TRY(file->lock_for_writing());
  CODECFS_TRY(file->clear_log());
  return file->found();
}

}  // namespace codecfs::hdf5
