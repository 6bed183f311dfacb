// Reads the commits of a log, and verifies that the log belongs to its source.

#include "backends/hdf5/wal/write_log_read.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "backends/hdf5/wal/write_log_search.h"
#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kFirstBufferBytes = size_t{64} << 10;
constexpr int64_t kSecond = 1'000'000'000;  // ns

Result<> check_owner(const File& directory, const File& log, const File& source) {
  // In a directory where all users may create files, any user could create a log beside another user's source.
  struct stat around;
  struct stat own;
  struct stat theirs;
  if (::fstat(directory.fd.get(), &around) != 0) return fail_errno(errno, "{}", directory.path);
  if (::fstat(log.fd.get(), &own) != 0) return fail_errno(errno, "{}", log.path);
  if (::fstat(source.fd.get(), &theirs) != 0) return fail_errno(errno, "{}", source.path);
  if (!S_ISREG(own.st_mode))
    return fail(EUCLEAN, "{}: is not a regular file, so not a log of codecfs; move it away", log.path);
  for (const uid_t trusted : {uid_t{0}, ::geteuid(), theirs.st_uid}) {
    if (own.st_uid == trusted) return {};
  }
  // Permission to write the source includes changing it through a log. That includes members of its group, if the log's
  // group is its creator's and not inherited from a world-writable directory.
  const bool is_in_group = own.st_gid == theirs.st_gid && (around.st_mode & S_IWOTH) == 0;
  if ((theirs.st_mode & S_IWOTH) != 0 || ((theirs.st_mode & S_IWGRP) != 0 && is_in_group)) return {};
  return fail(EPERM,
              "{}: this log belongs to user {}, and the source to user {}, so it is not trusted: its owner can "
              "recover it (codecfs recover), or discard it by removing it",
              log.path, own.st_uid, theirs.st_uid);
}

std::string how_to_give_up(const std::string& log, const File& source) {
  std::string commands = fmt::format("rm '{}'", log);
  if (has_log_mark(source)) commands += fmt::format("; setfattr -x {} '{}'", kLogMark, source.path);
  return commands;
}

Error not_its_log(const char* what, const std::string& log, const File& source) {
  return {
      EUCLEAN,
      fmt::format("{}: another program has changed the source, or it is another file ({}), so the log cannot "
                  "be applied. Restore the source, or move the log beside the file that it belongs to; to discard the "
                  "last writes: {}",
                  log, what, how_to_give_up(log, source))};
}

/// Whether the times are equal, or equal in whole seconds if a filesystem or an archive has truncated one of them.
bool same_time(int64_t one, int64_t other) {
  if (one == other) return true;
  return (one % kSecond == 0 || other % kSecond == 0) && one / kSecond == other / kSecond;
}

/// Compares the source with the recorded checksums of the pieces that a log's frames replace.
class PieceCheck {
 public:
  PieceCheck(const CommittedLog& log, const File& source) : log_(log), source_(source) {}

  /// Whether all pieces of this frame have a permitted content. `replaced_at`: position of their checksums in the log.
  Result<bool> holds(const Frame& frame, uint64_t replaced_at) {
    const uint64_t end = std::min(frame.end(), log_.header.source.size);
    for (uint64_t at = frame.offset; at < end;) {
      const uint64_t until = std::min(end, (at + kCopyBytes) / kSectorBytes * kSectorBytes);
      const uint64_t pieces = (until - 1) / kSectorBytes - at / kSectorBytes + 1;
      CODECFS_TRY(read(source_, at, until - at, there_));
      CODECFS_TRY(read(log_.file, replaced_at, pieces * sizeof(uint64_t), checksums_));
      CODECFS_ASSIGN(const bool held, batch_holds(at, until));
      if (!held) return false;
      replaced_at += pieces * sizeof(uint64_t);
      at = until;
    }
    return true;
  }

 private:
  static Result<> read(const File& file, uint64_t at, uint64_t size, std::vector<std::byte>& to) {
    to.resize(size);
    CODECFS_ASSIGN(const size_t got, read_at(file, at, to));
    to.resize(got);
    return {};
  }

  Result<bool> batch_holds(uint64_t from, uint64_t until) {
    bool good = true;
    size_t number = 0;
    Result<> failed;
    for_each_piece(from, until, [&](uint64_t first, uint64_t end) {
      const size_t checksum_at = sizeof(uint64_t) * number++;
      // Bytes that an interrupted checkpoint cuts off and may write again can have any content.
      if (!good || !failed || (log_.header.checkpoint != 0 && end > log_.overlay.base_end())) return;
      if (checksum_at + sizeof(uint64_t) <= checksums_.size() && end - from <= there_.size()) {
        const Bytes piece = Bytes(there_).subspan(first - from, end - first);
        if (continue_checksum(0, piece) == load_le<uint64_t>(checksums_.data() + checksum_at)) return;
      }
      Result<bool> is_final = holds_final(first, end, from);
      if (!is_final) failed = pass_on(is_final);
      good = is_final && *is_final;
    });
    CODECFS_TRY(failed);
    return good;
  }

  /// Whether the piece has the content that the interrupted checkpoint writes.
  Result<bool> holds_final(uint64_t first, uint64_t end, uint64_t from) {
    if (log_.header.checkpoint == 0 || end - from > there_.size()) return false;
    std::vector<std::byte> part;
    while (first < end) {
      const Overlay::Piece piece = log_.overlay.piece_at(first);
      const uint64_t length = std::min(piece.length, end - first);
      if (piece.origin != Overlay::Origin::log) return false;
      CODECFS_TRY(read(log_.file, piece.position, length, part));
      if (!std::ranges::equal(part, Bytes(there_).subspan(first - from, length))) return false;
      first += length;
    }
    return true;
  }

  const CommittedLog& log_;
  const File& source_;
  std::vector<std::byte> there_;
  std::vector<std::byte> checksums_;
};

struct DataFrame {
  Frame frame;
  uint64_t replaced_at;  // position of the checksums
};

Result<> check_pieces(const CommittedLog& log, const std::vector<DataFrame>& frames, const File& source) {
  PieceCheck check(log, source);
  for (const auto& [frame, replaced_at] : frames) {
    CODECFS_ASSIGN(const bool held, check.holds(frame, replaced_at));
    if (!held) return std::unexpected(not_its_log("bytes that the log replaces differ", log.file.path, source));
  }
  return {};
}

/// Verification for version 1, which has no checksums of pieces.
Result<> check_by_place(const CommittedLog& log, const SourceIdentity& now, const File& source) {
  const SourceIdentity& then = log.header.source;
  if (then.device != now.device || then.inode != now.inode)
    return std::unexpected(
        not_its_log("a log of format version 1, and the device or inode is another", log.file.path, source));
  if (log.header.checkpoint != 0 || then == now) return {};
  const char* what = "its first bytes differ";
  if (then.size != now.size) {
    what = "its size is another";
  } else if (then.mtime != now.mtime) {
    what = "its time of modification is another";
  }
  return std::unexpected(not_its_log(what, log.file.path, source));
}

/// Compares only the time of modification.
Result<> check_time(const SourceIdentity& then, const SourceIdentity& now, const std::string& path,
                    const File& source) {
  if (same_time(now.mtime, then.mtime)) return {};
  int64_t seconds = then.mtime / kSecond;
  int64_t rest = then.mtime % kSecond;
  if (rest < 0) rest += kSecond, --seconds;
  return fail(EUCLEAN,
              "{}: the source has another time of modification than the log has recorded: it may have been "
              "changed by another program since, or copied while it was changed. If it was only copied without its "
              "times, give it the recorded one and "
              "try again: touch -d @{}.{:09} '{}'; to discard the last writes instead: {}",
              path, seconds, rest, source.path, how_to_give_up(path, source));
}

Result<> check_belongs(const CommittedLog& log, const std::vector<DataFrame>& frames, const File& source) {
  CODECFS_ASSIGN(const SourceIdentity now, identify(source));
  if (log.header.version < 2) return check_by_place(log, now, source);
  const SourceIdentity& then = log.header.source;
  const std::string& path = log.file.path;
  const auto replaces_head = [&](const DataFrame& data) { return data.frame.offset < kSourceHeadBytes; };
  if (log.header.checkpoint != 0) {
    const uint64_t largest = std::max(then.size, log.overlay.size());
    if (now.size < log.overlay.base_end() || now.size > largest)
      return std::unexpected(not_its_log("its size is another", path, source));
    const bool keeps_head = log.overlay.base_end() >= std::min<uint64_t>(then.size, kSourceHeadBytes) &&
                            then.size >= kSourceHeadBytes && std::ranges::none_of(frames, replaces_head);
    if (keeps_head && now.head != then.head)
      return std::unexpected(not_its_log("its first bytes differ", path, source));
    return check_pieces(log, frames, source);
  }
  if (now.size != then.size) return std::unexpected(not_its_log("its size is another", path, source));
  if (now.head != then.head) return std::unexpected(not_its_log("its first bytes differ", path, source));
  CODECFS_TRY(check_pieces(log, frames, source));
  return check_time(then, now, path, source);
}

/// Reads consecutive frames while they are valid.
class FrameReader {
 public:
  FrameReader(const File& log, const LogHeader& header, uint64_t log_bytes)
      : log_(log),
        header_(header),
        size_(log_bytes),
        checksum_(first_checksum(header.salt)),
        buffer_(kFirstBufferBytes) {}

  /// None at the first invalid frame. Errors are those of reading.
  Result<std::optional<Frame>> next() {
    FrameBytes bytes;
    if (size_ - position_ < bytes.size()) return std::nullopt;
    CODECFS_ASSIGN(const size_t count, read_at(log_, position_, bytes));
    if (count < bytes.size()) return std::nullopt;
    const std::optional<Frame> frame = decode_frame(bytes, header_.salt, sequence_ + 1);
    const uint64_t left = size_ - position_ - bytes.size();
    if (!frame || frame->length > left) return std::nullopt;
    const uint64_t replaced = replaced_pieces(*frame, header_) * sizeof(uint64_t);
    if (replaced > left - frame->length) return std::nullopt;
    replaced_at_ = position_ + bytes.size();
    payload_at_ = replaced_at_ + replaced;
    const uint64_t covered = replaced + frame->length;
    uint64_t checksum = continue_with_frame_header(checksum_, bytes);
    for (uint64_t done = 0; done < covered;) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(covered - done, kCopyBytes));
      if (buffer_.size() < part) buffer_.resize(kCopyBytes);
      CODECFS_ASSIGN(const size_t got, read_at(log_, replaced_at_ + done, MutableBytes(buffer_).first(part)));
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
  [[nodiscard]] uint64_t replaced_at() const { return replaced_at_; }
  [[nodiscard]] uint64_t payload_at() const { return payload_at_; }
  [[nodiscard]] uint64_t checksum() const { return checksum_; }

 private:
  const File& log_;
  const LogHeader& header_;
  const uint64_t size_;
  uint64_t checksum_;
  std::vector<std::byte> buffer_;
  uint64_t position_ = kLogHeaderBytes;
  uint64_t replaced_at_ = 0;
  uint64_t payload_at_ = 0;
  uint64_t sequence_ = 0;
};

/// Applies all complete transactions and returns their data frames.
Result<std::vector<DataFrame>> replay(CommittedLog& log, uint64_t log_bytes) {
  struct Placed {
    Frame frame;
    uint64_t replaced_at;
    uint64_t payload_at;
  };
  std::vector<DataFrame> frames;
  std::vector<Placed> transaction;
  FrameReader reader(log.file, log.header, log_bytes);
  while (true) {
    CODECFS_ASSIGN(const std::optional<Frame> frame, reader.next());
    if (!frame) return frames;
    if (frame->kind != FrameKind::commit) {
      transaction.push_back({*frame, reader.replaced_at(), reader.payload_at()});
      continue;
    }
    for (const auto& [part, replaced_at, payload_at] : transaction) {
      if (part.kind == FrameKind::size) {
        log.overlay.set_size(part.offset);
      } else {
        log.overlay.write(part.offset, part.length, Overlay::Origin::log, payload_at);
        log.bytes += part.length;
        frames.push_back({part, replaced_at});
      }
    }
    transaction.clear();
    ++log.transactions;
    log.sequence = frame->sequence;
    log.end = reader.payload_at();
    log.checksum = reader.checksum();
  }
}

File open_log(const File& directory, const std::string& name, LogAccess access) {
  const int flags = (access == LogAccess::write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  return {.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), flags)), .path = directory.path + "/" + name};
}

}  // namespace

Result<> check_is_unchanged(const SourceIdentity& then, const SourceIdentity& now, const std::string& log,
                            const File& source) {
  if (now.size != then.size) return std::unexpected(not_its_log("its size is another", log, source));
  if (now.head != then.head) return std::unexpected(not_its_log("its first bytes differ", log, source));
  return check_time(then, now, log, source);
}

std::optional<LogHeader> read_log_header(const File& directory, const std::string& name) {
  const File file = open_log(directory, name, LogAccess::read);
  struct stat status;
  if (!file.fd || ::fstat(file.fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  HeaderBytes bytes;
  const auto count = read_at(file, 0, bytes);
  if (!count) return std::nullopt;
  const auto header = decode_header(Bytes(bytes).first(*count), file.path);
  return header ? *header : std::nullopt;
}

bool log_exists(const File& directory, const std::string& name) {
  struct stat status;
  return ::fstatat(directory.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::optional<CommittedLog>> read_log(const File& directory, const std::string& name, const File& source,
                                             LogAccess access) {
  CommittedLog log;
  log.file = open_log(directory, name, access);
  if (!log.file.fd) {
    if (errno == ENOENT || errno == ENAMETOOLONG) return std::nullopt;
    if (errno == ELOOP || errno == ENXIO)
      return fail(EUCLEAN, "{}: is {}, so not a log of codecfs; move it away", log.file.path,
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
  CODECFS_ASSIGN(const std::vector<DataFrame> frames, replay(log, static_cast<uint64_t>(status.st_size)));
  if (log.sequence < header->checkpoint) {
    // The source may contain parts of later transactions, so the earlier ones alone would be inconsistent.
    return fail(EUCLEAN,
                "{}: copying it into the source was interrupted, and the log is damaged (frame {} of {} is the "
                "last valid commit); neither is changed",
                log.file.path, log.sequence, header->checkpoint);
  }
  if (log.transactions == 0) return std::nullopt;
  CODECFS_TRY(check_belongs(log, frames, source));
  return log;
}

}  // namespace codecfs::hdf5
