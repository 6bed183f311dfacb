#include "backends/hdf5/wal/write_log_file.h"

#include <sys/file.h>

#include <algorithm>
#include <vector>

#include "backends/hdf5/wal/write_log_checkpoint.h"
#include "base/endian.h"
#include "base/file_owner.h"

namespace codecfs::hdf5 {
namespace {

// Frames up to this size are written by one call.
constexpr size_t kOneCallBytes = size_t{64} << 10;

bool is_about_room(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

}  // namespace

LogFile::LogFile(FileIo& io, File file, const LogHeader& header, const File& source)
    : io_(io), file_(std::move(file)), source_(source), header_(header), checksum_(first_checksum(header.salt)) {
  show_in_use();
}

LogFile::LogFile(FileIo& io, CommittedLog&& found, const File& source)
    : io_(io),
      file_(std::move(found.file)),
      source_(source),
      header_(found.header),
      end_(found.end),
      sequence_(found.sequence),
      committed_(found.sequence),
      synced_(found.sequence),
      checksum_(found.checksum) {
  show_in_use();
  (void)io_.truncate(file_, end_);  // saves space; the next frame overwrites it anyway
}

Result<std::unique_ptr<LogFile>> LogFile::create(FileIo& io, const File& directory, const std::string& name,
                                                 const File& source, const SourceIdentity& identity) {
  CODECFS_ASSIGN(const uint64_t salt, new_salt());
  CODECFS_ASSIGN(const uint64_t id, new_salt());
  CODECFS_ASSIGN(File file, io.create(directory, name, S_IRUSR | S_IWUSR));
  // The log belongs to the owner of the source, so that this user can recover it after a crash of root's mount, and it
  // has the same readers. Only root can set another owner.
  if (const Result<> given = make_like(file.fd.get(), source.fd.get(), Attributes::none); !given) {
    (void)io.unlink(directory, name);
    return fail(given.error().code, "{}: {}", file.path, given.error().reason);
  }

  std::unique_ptr<LogFile> log(new LogFile(io, std::move(file), {.salt = salt, .source = identity, .id = id}, source));
  Result<> done = io.write(log->file_, 0, encode_header(log->header_));
  if (done) done = io.sync(log->file_);
  if (done) done = io.sync(directory);
  if (done) return log;
  (void)io.unlink(directory, name);  // a remaining log has no commit and is removed by the next writer
  return pass_on(done);
}

void LogFile::show_in_use() const { (void)::flock(file_.fd.get(), LOCK_EX | LOCK_NB); }

Result<> LogFile::usable() const {
  const LockGuard lock(broken_mutex_);
  if (broken_) return std::unexpected(*broken_);
  return {};
}

Result<> LogFile::break_with(Error error) {
  error.reason += "; nothing more is committed until the source is mounted again";
  const LockGuard lock(broken_mutex_);
  broken_ = error;
  return std::unexpected(std::move(error));
}

Result<> LogFile::reserve(uint64_t bytes, uint64_t growth) {
  CODECFS_TRY(usable());
  constexpr uint64_t kLargestStep = uint64_t{8} << 20;
  const uint64_t needed = bytes + growth;
  if (end_ + needed <= reserved_) return {};
  if (end_ + bytes > largest_file())
    return fail_errno(EFBIG, "{}: {} bytes exceed the maximum file size of this process (ulimit -f)", file_.path,
                      end_ + bytes);
  const uint64_t before = held();
  const uint64_t there = available_space(file_);
  Result<> taken;
  for (const uint64_t step : {std::min(kLargestStep, there / 8), uint64_t{0}}) {
    // The file may keep this length: bytes after the last frame are not valid frames.
    taken = io_.allocate(file_, end_, needed + step);
    if (taken) reserved_ = end_ + needed + step;
    if (taken) return {};
    if (!is_about_room(taken.error().code)) break;
  }
  if (!is_about_room(taken.error().code)) {
    if (needed <= there) return {};
    return fail_errno(ENOSPC, "{}: {} more bytes of changes, and {} are free", file_.path, needed, there);
  }
  // Release a partial allocation.
  (void)io_.truncate(file_, end_);
  reserved_ = before != 0 && io_.allocate(file_, end_, before) ? end_ + before : 0;
  return fail_errno(taken.error().code, "{}: {} more bytes of changes", file_.path, needed);
}

/// Reads from the log the checksums of the source pieces that a frame replaces.
Result<std::vector<std::byte>> LogFile::replaced_checksums(const Frame& frame) const {
  std::vector<std::byte> checksums(replaced_pieces(frame, header_) * sizeof(uint64_t));
  if (checksums.empty()) return checksums;
  const uint64_t end = std::min(frame.end(), header_.source.size);
  std::vector<std::byte> there;
  size_t number = 0;
  for (uint64_t at = frame.offset; at < end;) {
    const uint64_t until = std::min(end, (at + kCopyBytes) / kSectorBytes * kSectorBytes);
    there.resize(until - at);
    CODECFS_ASSIGN(const size_t got, read_at(source_, at, there));
    if (got < there.size()) return fail(EIO, "{}: became shorter: another program has truncated it", source_.path);
    for_each_piece(at, until, [&](uint64_t first, uint64_t last) {
      const uint64_t checksum = continue_checksum(0, Bytes(there).subspan(first - at, last - first));
      store_le(checksums.data() + sizeof(uint64_t) * number++, checksum);
    });
    at = until;
  }
  return checksums;
}

Result<uint64_t> LogFile::append(FrameKind kind, uint64_t offset, Bytes payload) {
  CODECFS_TRY(usable());
  if (checkpoint_begun())
    return fail(EIO, "{}: bringing the log into it was interrupted by an error; it is tried again at the next commit",
                source_.path);
  const Frame frame{.kind = kind, .sequence = sequence_ + 1, .offset = offset, .length = payload.size()};
  CODECFS_ASSIGN(const std::vector<std::byte> replaced, replaced_checksums(frame));
  uint64_t checksum = checksum_;
  const FrameBytes bytes = encode_frame(frame, header_.salt, replaced, payload, checksum);
  std::vector<std::byte> written(bytes.begin(), bytes.end());
  written.insert(written.end(), replaced.begin(), replaced.end());
  const uint64_t payload_at = end_ + written.size();
  Result<> done;
  if (written.size() + payload.size() <= kOneCallBytes) {
    written.insert(written.end(), payload.begin(), payload.end());
  } else {
    done = io_.write(file_, payload_at, payload);
  }
  if (done) done = io_.write(file_, end_, written);
  if (!done) {
    // Free the space on a full disk. The next frame overwrites the file here anyway.
    (void)io_.truncate(file_, end_);
    reserved_ = 0;
    return pass_on(done);
  }
  end_ = payload_at + payload.size();
  sequence_ = frame.sequence;
  checksum_ = checksum;
  return payload_at;
}

void LogFile::rewind(const Mark& mark) {
  if (mark.sequence == sequence_) return;
  end_ = mark.end;
  sequence_ = mark.sequence;
  checksum_ = mark.checksum;
}

Result<> LogFile::seal() {
  CODECFS_TRY(append(FrameKind::commit, 0, {}));
  committed_ = sequence_;
  return {};
}

Result<bool> LogFile::sync() {
  CODECFS_TRY(usable());
  const uint64_t sealed = committed_;
  if (sealed == synced_) return false;
  if (Result<> synced = io_.sync_data(file_); !synced) {
    const Result<> broken = break_with(std::move(synced.error()));
    return std::unexpected(broken.error());
  }
  synced_ = sealed;
  return true;
}

Result<> LogFile::write_header(const LogHeader& header) {
  if (Result<> written = io_.write(file_, 0, encode_header(header)); !written) {
    // The header may have been written in part. Unless the old one can be restored, frames would follow an unknown
    // header.
    if (io_.write(file_, 0, encode_header(header_))) return pass_on(written);
    return break_with(std::move(written.error()));
  }
  if (Result<> synced = io_.sync_data(file_); !synced) return break_with(std::move(synced.error()));
  header_ = header;
  return {};
}

/// Cancels a checkpoint before step 3. The source's content has not changed, but its times have, and allocated space is
/// released.
void LogFile::cancel_checkpoint(const File& source) {
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return;
  (void)io_.truncate(source, static_cast<uint64_t>(status.st_size));
  if (Result<> synced = io_.sync(source); !synced) {
    (void)break_with(std::move(synced.error()));
    return;
  }
  LogHeader before = header_;
  before.checkpoint = 0;
  const auto identity = identify(source);
  if (!identity) return;
  before.source = *identity;
  (void)write_header(before);  // on an error the checkpoint stays begun, and the next one continues it
}

Result<> LogFile::apply(const Overlay& committed, const File& source) {
  CODECFS_TRY(usable());
  if (has_uncommitted()) return fail(EINVAL, "{}: a checkpoint with uncommitted frames", file_.path);
  // Before the source changes, and before the header refers to frames that are only in the page cache.
  CODECFS_TRY(sync());
  if (reserved_ > end_) (void)io_.truncate(file_, end_);  // release the space reserved for the source
  reserved_ = 0;
  CODECFS_TRY(check_space(committed, source));
  const bool is_repeated = checkpoint_begun();
  LogHeader begun = header_;
  begun.checkpoint = committed_;
  CODECFS_TRY(write_header(begun));
  if (Result<> taken = reserve_space(io_, committed, source); !taken) {
    if (!is_repeated) cancel_checkpoint(source);
    return taken;
  }
  bool sync_failed = false;
  if (Result<> copied = copy_into_source(io_, committed, file_, source, sync_failed); !copied) {
    if (sync_failed) return break_with(std::move(copied.error()));
    return copied;
  }

  LogHeader next;
  next.id = header_.id;
  CODECFS_ASSIGN(next.salt, new_salt());
  CODECFS_ASSIGN(next.source, identify(source));
  CODECFS_TRY(write_header(next));
  sequence_ = 0;
  committed_ = 0;
  synced_ = 0;
  checksum_ = first_checksum(next.salt);
  end_ = kLogHeaderBytes;
  return {};
}

void LogFile::shorten() {
  (void)io_.truncate(file_, kLogHeaderBytes);
  reserved_ = 0;
}

void LogFile::restart() {
  sequence_ = 0;
  checksum_ = first_checksum(header_.salt);
  end_ = kLogHeaderBytes;
  shorten();
}

}  // namespace codecfs::hdf5
