#include "backends/hdf5/wal/write_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backends/hdf5/wal/write_log_checkpoint.h"
#include "backends/hdf5/wal/write_log_rescue.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

bool refers_to(const File& directory, const std::string& name, const File& file) {
  struct stat there;
  struct stat own;
  return ::fstatat(directory.fd.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file.fd.get(), &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

}  // namespace

bool LoggedFile::is_in_source(uint64_t offset, uint64_t size) const {
  std::unique_lock turn(turn_);
  const std::shared_lock lock(readable_mutex_);
  turn.unlock();
  const Overlay& overlay = readable_.overlay;
  if (offset >= overlay.size() || size > overlay.size() - offset) return false;
  const Overlay::Piece piece = overlay.piece_at(offset);
  return piece.origin == Overlay::Origin::source && piece.position == offset && piece.length >= size;
}

LoggedFile::LastCommit LoggedFile::last_commit() const {
  if (log_) return {log_->id(), log_->committed_sequence()};
  if (old_log_) return {old_log_->header.id, old_log_->sequence};
  return {};
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
    if (piece.origin == Overlay::Origin::memory) fd = readable_.memory;
    if (piece.origin == Overlay::Origin::zeros) {
      std::memset(part.data(), 0, part.size());
    } else {
      if (fetched_ && piece.origin == Overlay::Origin::source) {
        if (Result<> read = fetched_->read(piece.position, part); !read) {
          note_fetch_failure(read.error());
          return pass_on(read);
        }
        done += part.size();
        continue;
      }
      const bool of_family = family_ && piece.origin == Overlay::Origin::source;
      CODECFS_ASSIGN(const size_t got, of_family ? family_->read(source_, piece.position, part)
                                                 : read_at(fd, source_.path, piece.position, part));
      if (got < part.size()) {
        return fail(EIO, "{}: {} bytes at {} are missing: another program has truncated the file or its log",
                    source_.path, part.size(), offset + done);
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

void LoggedFile::show(Overlay overlay, int log, int memory) {
  Readable next{.overlay = std::move(overlay), .log = log, .memory = memory};
  change([&next](Readable& readable) { std::swap(readable, next); });
}

void LoggedFile::begin_buffering() {
  if (!buffer_dirty_) size_before_buffered_ = buffered_floor_ = readable_.overlay.size();
  buffer_dirty_ = true;
}

Result<> LoggedFile::buffer_write(uint64_t offset, Bytes bytes) {
  if (!buffer_) buffer_ = UniqueFd(::memfd_create("codecfs-buffer", MFD_CLOEXEC));
  if (!buffer_) return fail_errno(errno, "no memory to keep {} bytes of {}", bytes.size(), source_.path);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(buffer_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(buffered_bytes_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return fail_errno(count < 0 ? errno : ENOSPC, "no memory to keep {} bytes of {}", bytes.size(), source_.path);
    }
    done += static_cast<size_t>(count);
  }
  begin_buffering();
  buffered_.write(offset, bytes.size(), Overlay::Origin::memory, buffered_bytes_);
  change([&](Readable& readable) {
    readable.memory = buffer_.get();
    readable.overlay.write(offset, bytes.size(), Overlay::Origin::memory, buffered_bytes_);
  });
  buffered_bytes_ += bytes.size();
  return {};
}

Result<> LoggedFile::write(uint64_t offset, Bytes bytes) {
  if (offset > kLargestOffset || bytes.size() > kLargestOffset - offset) {
    return fail_errno(EFBIG, "{}: {} bytes at {}", source_.path, bytes.size(), offset);
  }
  if (bytes.empty()) return {};
  const auto writing = stop_writes();
  if (!log_ || held_) return buffer_write(offset, bytes);
  CODECFS_ASSIGN(const uint64_t position, log_->append(FrameKind::data, offset, bytes));
  change([&](Readable& readable) { readable.overlay.write(offset, bytes.size(), Overlay::Origin::log, position); });
  return {};
}

Result<> LoggedFile::set_size(uint64_t bytes) {
  if (bytes > kLargestOffset) return fail_errno(EFBIG, "{}: a size of {}", source_.path, bytes);
  const auto writing = stop_writes();
  const uint64_t now = readable_.overlay.size();
  if (bytes == now) return {};
  if (log_ && !held_) {
    CODECFS_TRY(log_->append(FrameKind::size, bytes, {}));
  } else {
    begin_buffering();
    buffered_floor_ = std::min(buffered_floor_, bytes);
    buffered_.set_size(bytes);
  }
  change([bytes](Readable& readable) { readable.overlay.set_size(bytes); });
  return {};
}

// `size`: of the file before writes were buffered.
Result<std::vector<LoggedFile::Appended>> LoggedFile::append_buffered(LogFile& log, uint64_t size) const {
  std::vector<Appended> appended;
  if (!buffer_dirty_) return appended;
  const auto set_size = [&](uint64_t wanted) -> Result<> {
    if (wanted == size) return {};
    CODECFS_TRY(log.append(FrameKind::size, wanted, {}));
    size = wanted;
    return {};
  };
  CODECFS_TRY(set_size(std::min(buffered_floor_, size)));
  std::vector<std::byte> buffer;
  for (const auto& [start, extent] : buffered_.extents()) {
    for (uint64_t at = start; at < extent.end;) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(extent.end - at, kCopyBytes));
      if (buffer.size() < part) buffer.resize(part);
      const MutableBytes bytes = MutableBytes(buffer).first(part);
      CODECFS_ASSIGN(const size_t got, read_at(buffer_.get(), source_.path, extent.position + (at - start), bytes));
      if (got < part) return fail(EIO, "{}: the buffered writes are gone", source_.path);
      CODECFS_ASSIGN(const uint64_t position, log.append(FrameKind::data, at, bytes));
      appended.push_back({at, part, position});
      at += part;
      size = std::max(size, at);
    }
  }
  CODECFS_TRY(set_size(readable_.overlay.size()));
  return appended;
}

void LoggedFile::reset_buffer() {
  constexpr uint64_t kKept = uint64_t{1} << 20;  // bytes; a new memfd takes time
  if (buffered_bytes_ > kKept) buffer_.reset();
  buffered_bytes_ = 0;
  buffered_ = Overlay();
  buffer_dirty_ = false;
  held_ = false;
}

void LoggedFile::hold() {
  if (log_) held_ = true;
}

// The overlay has as many ranges as the log has frames: only those that were buffered are looked at.
Result<> LoggedFile::release() {
  if (!held_) return {};
  const LogFile::Mark before = log_->mark();
  auto appended = append_buffered(*log_, size_before_buffered_);
  if (!appended) {
    log_->rewind(before);
    return pass_on(appended);
  }
  change([&](Readable& readable) {
    for (const Appended& part : *appended)
      readable.overlay.write(part.offset, part.length, Overlay::Origin::log, part.position);
    readable.memory = -1;
  });
  reset_buffer();
  return {};
}

Result<> LoggedFile::reserve(uint64_t bytes, uint64_t more) {
  if (!log_) return {};
  if (log_->checkpoint_begun()) CODECFS_TRY(checkpoint());
  // Frame headers add a little to the payloads.
  constexpr uint64_t kForFrames = uint64_t{64} << 10;
  bytes += bytes / 64 + kForFrames;
  const uint64_t end = size() + more;
  if (end > largest_file() && end > log_->source_size())
    return fail_errno(EFBIG, "{}: {} bytes exceed the maximum file size of this process (ulimit -f)", source_.path,
                      end);
  return log_->reserve(bytes, growth_until(end) + (rewriting_allocates_ ? bytes : 0));
}

/// The disk space that the next checkpoint allocates if the file ends there.
uint64_t LoggedFile::growth_until(uint64_t end) const {
  const uint64_t there = log_->source_size();
  return (end > there ? end - there : 0) + (rewriting_allocates_ ? log_->bytes() : 0);
}

bool LoggedFile::room_is_short() const {
  if (!log_) return false;
  const uint64_t there = available_space(writable_);
  return there != UINT64_MAX && there + log_->held() < growth_until(size()) + log_->bytes();
}

Result<> LoggedFile::commit() {
  CODECFS_TRY(seal());
  CODECFS_TRY(sync_sealed());
  return {};
}

Result<> LoggedFile::seal() {
  if (!log_) {
    if (buffer_dirty_) return fail(EINVAL, "{}: a commit of buffered writes before begin_writing()", source_.path);
    return {};
  }
  CODECFS_TRY(log_->usable());
  if (held_) return fail(EINVAL, "{}: a commit while writes are held in memory", source_.path);
  if (!log_->has_uncommitted()) return {};
  // The log of a deleted source is kept for finish(); sync_sealed() reports it.
  if (Result<> relocated = relocate_log(); !relocated && !is_gone()) return relocated;
  return log_->seal();
}

Result<bool> LoggedFile::sync_sealed() {
  const std::lock_guard lock(sync_mutex_);
  // A checkpoint or finish() may have been faster: then there is nothing to sync any more.
  if (!log_) return false;
  CODECFS_ASSIGN(const bool was_needed, log_->sync());
  const bool has_changes = log_->has_committed() || has_checkpointed_;
  if (has_changes && is_gone() && !is_given_up(log_->file())) return was_deleted();
  return was_needed;
}

Result<> LoggedFile::relocate_log() {
  if (refers_to(directory_, name_, source_)) return {};
  const std::string path = present_path(source_.fd.get());
  const size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? "" : path.substr(slash + 1);
  auto directory = open_directory(slash == 0 || slash == path.npos ? "/" : path.substr(0, slash));
  if (is_gone() || !directory || !refers_to(*directory, name, source_))
    return fail(ESTALE, "{}: was deleted or replaced by another program", source_.path);
  if (log_) {
    const std::string log_name = log_name_for(name);
    const Result<> moved = io_.move(directory_, log_name_for(name_), *directory, log_name);
    if (!moved && moved.error().code == EEXIST)
      return fail(EBUSY, "{}: was moved to {}, where {} exists, a log of another file", source_.path, path, log_name);
    CODECFS_TRY(moved);
  }
  const File before = std::exchange(directory_, std::move(*directory));
  name_ = name;
  if (!log_) return {};
  // Without the attribute the log is still found, beside the source.
  if (is_marked_)
    (void)set_log_mark(io_, writable_, log_->id(), {.fd = {}, .path = directory_.path + "/" + log_name_for(name)});
  CODECFS_TRY(io_.sync(directory_));
  return io_.sync(before);
}

Result<> LoggedFile::checkpoint(std::unique_lock<Mutex>) {
  if (!log_) return commit();
  CODECFS_TRY(log_->usable());
  if (log_->has_uncommitted() || held_) return fail(EINVAL, "{}: a checkpoint with uncommitted writes", source_.path);
  if (!log_->has_committed()) return {};
  const std::lock_guard lock(sync_mutex_);
  if (is_gone()) return was_deleted();  // the log has what a copy of the source lacks
  has_checkpointed_ = true;
  CODECFS_TRY(log_->apply(readable_.overlay, writable_));
  show(Overlay(readable_.overlay.size()), log_->file().fd.get(), -1);
  log_->shorten();  // no reader uses the old overlay any more
  rewriting_allocates_ = overwriting_allocates(writable_);
  return {};
}

uint64_t LoggedFile::log_bytes() const { return log_ ? log_->bytes() : 0; }

Result<> LoggedFile::drop_uncommitted() {
  if (!log_->has_uncommitted() && !held_) return {};
  const std::lock_guard lock(sync_mutex_);
  CODECFS_TRY(log_->sync());
  CODECFS_ASSIGN(auto found, read_log(directory_, log_name_for(name_), writable_, LogAccess::write));
  if ((found ? found->sequence : 0) != log_->committed_sequence()) {
    return fail(EIO, "{}: no longer has all committed data", log_->file().path);
  }
  if (!found) {
    CODECFS_ASSIGN(const SourceIdentity now, identify(writable_));
    show(Overlay(now.size), log_->file().fd.get(), -1);
    log_->restart();  // no reader uses the old overlay any more
    reset_buffer();
    return {};
  }
  Overlay committed = found->overlay;
  auto log = std::make_unique<LogFile>(io_, std::move(*found), source_);
  show(std::move(committed), log->file().fd.get(), -1);
  log_ = std::move(log);
  log_->show_in_use();
  reset_buffer();
  return {};
}

void LoggedFile::drop_buffered() {
  if (buffer_dirty_) {
    show(old_log_ ? old_log_->overlay : Overlay(identity_.size), old_log_ ? old_log_->file.fd.get() : -1, -1);
  }
  reset_buffer();
}

Result<> LoggedFile::rollback() {
  if (!log_) {
    drop_buffered();
    return {};
  }
  CODECFS_TRY(log_->usable());
  return drop_uncommitted();
}

Result<> LoggedFile::finish(const LeftSpace& left) {
  if (!log_) {
    drop_buffered();
    return {};
  }
  if (is_gone()) return finish_deleted();
  CODECFS_TRY(log_->usable());
  (void)relocate_log();  // if the checkpoint is interrupted, the log must be beside the source
  CODECFS_TRY(drop_uncommitted());
  if (log_->has_committed()) CODECFS_TRY(checkpoint());
  CODECFS_ASSIGN(identity_, identify(writable_));
  if (!left.datasets.empty()) {
    if (const Result<> noted = record_left_space(io_, writable_, identity_, left); !noted)
      log::info("{}: the next mount will not know its {} free bytes: {}", source_.path, left.bytes,
                noted.error().reason);
  }
  // The source is complete. Even if removing the log fails, nothing may be written to it now.
  return remove_log();
}

/// Ends writing. Removes the log, unless another file has its name now.
Result<> LoggedFile::remove_log() {
  const std::string log_name = log_name_for(name_);
  // Remove the mark first, as a mark without a log means lost data.
  Result<> removed = remove_log_mark(io_, writable_);
  if (removed) is_marked_ = false;
  if (removed && refers_to(directory_, log_name, log_->file())) {
    removed = io_.unlink(directory_, log_name);
    if (removed) removed = io_.sync(directory_);
  }
  show(Overlay(identity_.size), -1, -1);
  {
    const std::lock_guard lock(sync_mutex_);
    log_.reset();
  }
  unlock();
  return removed;
}

}  // namespace codecfs::hdf5
