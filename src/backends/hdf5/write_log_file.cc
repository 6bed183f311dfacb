#include "backends/hdf5/write_log_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/file_owner.h"
#include "base/long_work.h"

namespace codecfs::hdf5 {
namespace {

// Frames up to this size are written with one call.
constexpr size_t kOneCallBytes = size_t{64} << 10;

Result<> check_owner(const File& directory, const File& log, const File& source) {
  // Where everybody may create files, anybody could lay a log beside somebody's source.
  struct stat around;
  struct stat own;
  struct stat theirs;
  if (::fstat(directory.fd.get(), &around) != 0) return fail_errno(errno, "{}", directory.path);
  if (::fstat(log.fd.get(), &own) != 0) return fail_errno(errno, "{}", log.path);
  if (::fstat(source.fd.get(), &theirs) != 0) return fail_errno(errno, "{}", source.path);
  if (!S_ISREG(own.st_mode)) return fail(EUCLEAN, "{}: is no file, so no log of codecfs; move it away", log.path);
  for (const uid_t trusted : {uid_t{0}, ::geteuid(), theirs.st_uid}) {
    if (own.st_uid == trusted) return {};
  }
  // Who can write the source itself may also do it by way of a log. That is so for a member of its group, which the log
  // has from its maker, unless everybody gets it from the directory.
  const bool is_in_group = own.st_gid == theirs.st_gid && (around.st_mode & S_IWOTH) == 0;
  if ((theirs.st_mode & S_IWOTH) != 0 || ((theirs.st_mode & S_IWGRP) != 0 && is_in_group)) return {};
  return fail(
      EPERM,
      "{}: this log belongs to user {}, and the source to user {}, so it is not trusted: who wrote it can bring "
      "it in (codecfs --recover), or, to give it up, remove it",
      log.path, own.st_uid, theirs.st_uid);
}

Result<> check_belongs(const LogHeader& header, const SourceIdentity& source, const std::string& path) {
  const SourceIdentity& then = header.source;
  const std::string advice = fmt::format(
      "what is in the log does not fit it any more. Bring the source back as it was, or, to give up what was written "
      "last, remove the log: rm '{}'",
      path);
  if (then.device != source.device || then.inode != source.inode) {
    return fail(EUCLEAN,
                "{}: belongs to another file (device {} inode {}, now {} and {}), so the source was replaced or "
                "moved; {}",
                path, then.device, then.inode, source.device, source.inode, advice);
  }
  if (header.checkpoint != 0 || then == source) return {};
  const char* what = "its first bytes";
  if (then.size != source.size) {
    what = "its size";
  } else if (then.mtime != source.mtime) {
    what = "its time of modification";
  }
  return fail(EUCLEAN, "{}: the source was changed by somebody else since ({} is another); {}", path, what, advice);
}

/// Reads frames one after the other as long as they are valid.
class FrameReader {
 public:
  FrameReader(const File& log, uint64_t salt, uint64_t log_bytes)
      : log_(log), salt_(salt), size_(log_bytes), checksum_(first_checksum(salt)), buffer_(kOneCallBytes) {}

  /// Nothing at the first frame that is not valid. Errors are those of reading.
  Result<std::optional<Frame>> next() {
    FrameBytes bytes;
    if (size_ - position_ < bytes.size()) return std::nullopt;
    CODECFS_ASSIGN(const size_t count, read_at(log_, position_, bytes));
    if (count < bytes.size()) return std::nullopt;
    const std::optional<Frame> frame = decode_frame(bytes, salt_, sequence_ + 1);
    if (!frame || frame->length > size_ - position_ - bytes.size()) return std::nullopt;
    payload_at_ = position_ + bytes.size();
    uint64_t checksum = continue_with_frame_header(checksum_, bytes);
    for (uint64_t done = 0; done < frame->length;) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(frame->length - done, kCopyBytes));
      if (buffer_.size() < part) buffer_.resize(kCopyBytes);
      CODECFS_ASSIGN(const size_t got, read_at(log_, payload_at_ + done, MutableBytes(buffer_).first(part)));
      if (got < part) return std::nullopt;
      checksum = continue_checksum(checksum, Bytes(buffer_).first(part));
      done += part;
    }
    if (checksum != stored_checksum(bytes)) return std::nullopt;
    checksum_ = checksum;
    sequence_ = frame->sequence;
    position_ = payload_at_ + frame->length;
    return frame;
  }
  [[nodiscard]] uint64_t payload_at() const { return payload_at_; }
  [[nodiscard]] uint64_t checksum() const { return checksum_; }

 private:
  const File& log_;
  const uint64_t salt_;
  const uint64_t size_;
  uint64_t checksum_;
  std::vector<std::byte> buffer_;
  uint64_t position_ = kLogHeaderBytes;
  uint64_t payload_at_ = 0;
  uint64_t sequence_ = 0;
};

/// Applies all whole transactions.
Result<> replay(CommittedLog& log, uint64_t log_bytes) {
  struct Placed {
    Frame frame;
    uint64_t payload_at;
  };
  std::vector<Placed> transaction;
  FrameReader reader(log.file, log.header.salt, log_bytes);
  while (true) {
    CODECFS_ASSIGN(const std::optional<Frame> frame, reader.next());
    if (!frame) return {};
    if (frame->kind != FrameKind::commit) {
      transaction.push_back({*frame, reader.payload_at()});
      continue;
    }
    for (const auto& [part, payload_at] : transaction) {
      if (part.kind == FrameKind::size) {
        log.overlay.set_size(part.offset);
      } else {
        log.overlay.write(part.offset, part.length, Overlay::Origin::log, payload_at);
        log.bytes += part.length;
      }
    }
    transaction.clear();
    ++log.transactions;
    log.sequence = frame->sequence;
    log.end = reader.payload_at();
    log.checksum = reader.checksum();
  }
}

}  // namespace

bool log_exists(const File& directory, const std::string& name) {
  struct stat status;
  return ::fstatat(directory.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::optional<CommittedLog>> read_log(const File& directory, const std::string& name, const File& source,
                                             LogAccess access) {
  CommittedLog log;
  log.file.path = directory.path + "/" + name;
  const int flags = (access == LogAccess::write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  log.file.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), flags));
  if (!log.file.fd) {
    if (errno == ENOENT || errno == ENAMETOOLONG) return std::nullopt;
    if (errno == ELOOP || errno == ENXIO)
      return fail(EUCLEAN, "{}: is {}, so no log of codecfs; move it away", log.file.path,
                  errno == ELOOP ? "a symbolic link" : "a pipe, a socket or a device");
    return fail_errno(errno, "cannot open the log {} of what was written last", log.file.path);
  }
  CODECFS_TRY(check_owner(directory, log.file, source));

  HeaderBytes bytes;
  CODECFS_ASSIGN(const size_t count, read_at(log.file, 0, bytes));
  CODECFS_ASSIGN(const std::optional<LogHeader> header, decode_header(Bytes(bytes).first(count), log.file.path));
  if (!header) return std::nullopt;
  log.header = *header;
  log.overlay = Overlay(header->source.size);

  struct stat status;
  if (::fstat(log.file.fd.get(), &status) != 0) return fail_errno(errno, "{}", log.file.path);
  CODECFS_TRY(replay(log, static_cast<uint64_t>(status.st_size)));
  if (log.sequence < header->checkpoint) {
    // The source may hold parts of later transactions: the earlier ones alone would make a mixture.
    return fail(EUCLEAN,
                "{}: copying it into the source was cut short and the log is damaged since (frame {} of {} is "
                "the last good commit); neither is touched",
                log.file.path, log.sequence, header->checkpoint);
  }
  if (log.transactions == 0) return std::nullopt;
  CODECFS_ASSIGN(const SourceIdentity identity, identify(source));
  CODECFS_TRY(check_belongs(log.header, identity, log.file.path));
  return log;
}

LogFile::LogFile(FileIo& io, File file, const LogHeader& header)
    : io_(io), file_(std::move(file)), header_(header), checksum_(first_checksum(header.salt)) {}

LogFile::LogFile(FileIo& io, CommittedLog&& found)
    : io_(io),
      file_(std::move(found.file)),
      header_(found.header),
      end_(found.end),
      sequence_(found.sequence),
      committed_(found.sequence),
      checksum_(found.checksum) {
  (void)io_.truncate(file_, end_);  // saves space; the next frame is written over what is there
}

Result<std::unique_ptr<LogFile>> LogFile::create(FileIo& io, const File& directory, const std::string& name,
                                                 const File& source, const SourceIdentity& identity) {
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", source.path);
  CODECFS_ASSIGN(const uint64_t salt, new_salt());
  CODECFS_ASSIGN(File file, io.create(directory, name, S_IRUSR | S_IWUSR));
  // So that who owns the source can recover it after a crash of root's mount; others cannot give files away.
  status.st_mode &= 0777;
  if (const Result<> given = make_like(file.fd.get(), status); !given) {
    (void)io.unlink(directory, name);
    return fail(given.error().code, "{}: {}", file.path, given.error().reason);
  }

  std::unique_ptr<LogFile> log(new LogFile(io, std::move(file), {.salt = salt, .source = identity}));
  Result<> done = io.write(log->file_, 0, encode_header(log->header_));
  if (done) done = io.sync(log->file_);
  if (done) done = io.sync(directory);
  if (done) return log;
  (void)io.unlink(directory, name);  // what is left otherwise holds no commit and is removed by the next writer
  return pass_on(done);
}

Result<> LogFile::check() const {
  if (broken_) return std::unexpected(*broken_);
  return {};
}

Result<> LogFile::break_with(Error error) {
  error.reason += "; nothing more is committed until the source is mounted again";
  broken_ = error;
  return std::unexpected(std::move(error));
}

Result<> LogFile::reserve(uint64_t bytes) {
  CODECFS_TRY(check());
  constexpr uint64_t kStep = uint64_t{8} << 20;
  for (const uint64_t step : {bytes + kStep, bytes}) {
    if (end_ + bytes <= reserved_) return {};
    // The file keeps its length: what lies behind its last frame is none.
    if (::fallocate(file_.fd.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(end_), static_cast<off_t>(step)) == 0)
      reserved_ = end_ + step;
    else if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
      return {};
  }
  if (end_ + bytes <= reserved_) return {};
  return fail_errno(ENOSPC, "{}: {} more bytes of changes", file_.path, bytes);
}

Result<uint64_t> LogFile::append(FrameKind kind, uint64_t offset, Bytes payload) {
  CODECFS_TRY(check());
  uint64_t checksum = checksum_;
  const Frame frame{.kind = kind, .sequence = sequence_ + 1, .offset = offset, .length = payload.size()};
  const FrameBytes bytes = encode_frame(frame, header_.salt, payload, checksum);
  const uint64_t payload_at = end_ + bytes.size();
  Result<> done;
  if (bytes.size() + payload.size() <= kOneCallBytes) {
    std::vector<std::byte> whole(bytes.size() + payload.size());
    std::ranges::copy(bytes, whole.begin());
    std::ranges::copy(payload, whole.begin() + bytes.size());
    done = io_.write(file_, end_, whole);
  } else {
    done = io_.write(file_, payload_at, payload);
    if (done) done = io_.write(file_, end_, bytes);
  }
  if (!done) {
    // Gives back space where the disk is full. The next frame is written over it in any case.
    (void)io_.truncate(file_, end_);
    reserved_ = 0;
    return pass_on(done);
  }
  end_ = payload_at + payload.size();
  sequence_ = frame.sequence;
  checksum_ = checksum;
  return payload_at;
}

Result<> LogFile::commit() {
  CODECFS_TRY(append(FrameKind::commit, 0, {}));
  if (Result<> synced = io_.sync_data(file_); !synced) return break_with(std::move(synced.error()));
  committed_ = sequence_;
  return {};
}

Result<> LogFile::write_header(const LogHeader& header) {
  if (Result<> written = io_.write(file_, 0, encode_header(header)); !written) {
    // It may be there, or in part: unless the old one can be put back, frames would go on under an unknown header.
    if (io_.write(file_, 0, encode_header(header_))) return pass_on(written);
    return break_with(std::move(written.error()));
  }
  if (Result<> synced = io_.sync_data(file_); !synced) return break_with(std::move(synced.error()));
  header_ = header;
  return {};
}

Result<> LogFile::copy(const Overlay& committed, const File& source) {
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", source.path);
  // Cut first: what was cut and grew again without being written is zeros, and a cut short checkpoint left anything.
  auto size = static_cast<uint64_t>(status.st_size);
  if (size > committed.base_end()) {
    CODECFS_TRY(io_.truncate(source, committed.base_end()));
    size = committed.base_end();
  }
  LongWork work(fmt::format("bringing the log into {}", source.path));
  uint64_t total = 0;
  for (const auto& [start, extent] : committed.extents()) total += extent.end - start;
  work.expect(total);
  std::vector<std::byte> buffer;
  for (const auto& [start, extent] : committed.extents()) {
    for (uint64_t at = start; at < extent.end;) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(extent.end - at, kCopyBytes));
      if (buffer.size() < part) buffer.resize(part);
      const MutableBytes bytes = MutableBytes(buffer).first(part);
      CODECFS_ASSIGN(const size_t got, read_at(file_, extent.position + (at - start), bytes));
      if (got < part) return fail(EIO, "{}: became shorter than what was written to it", file_.path);
      CODECFS_TRY(io_.write(source, at, bytes));
      work.add(part);
      at += part;
      size = std::max(size, at);
    }
  }
  if (size != committed.size()) CODECFS_TRY(io_.truncate(source, committed.size()));
  return {};
}

Result<> LogFile::apply(const Overlay& committed, const File& source) {
  CODECFS_TRY(check());
  if (has_uncommitted()) return fail(EINVAL, "{}: a checkpoint with uncommitted frames", file_.path);
  LogHeader begun = header_;
  begun.checkpoint = committed_;
  CODECFS_TRY(write_header(begun));
  CODECFS_TRY(copy(committed, source));
  if (Result<> synced = io_.sync(source); !synced) return break_with(std::move(synced.error()));

  LogHeader next;
  CODECFS_ASSIGN(next.salt, new_salt());
  CODECFS_ASSIGN(next.source, identify(source));
  CODECFS_TRY(write_header(next));
  sequence_ = committed_ = 0;
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
