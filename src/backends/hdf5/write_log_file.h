#pragma once
// The log as a file: finding out what it holds, appending to it, and copying it into the source. write_log.h decides
// when; the bytes are in write_log_format.h.
//
// A checkpoint, in this order, so that it may be cut short anywhere and repeated:
//   1. the header with the mark "begun", synced        from here on the source may differ from its recorded identity
//   2. the committed ranges copied into the source, its size set, the source synced
//   3. a header with a new salt and the source's new identity, synced        from here on the frames are void
//   4. the log shortened to its header                 (what is left if that fails has the wrong salt)
//
// Not safe for use from several threads, but payloads of appended frames may be read by others at any time before 4.

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "backends/hdf5/write_log_format.h"
#include "backends/hdf5/write_log_overlay.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// A log with something committed in it.
struct CommittedLog {
  File file;
  LogHeader header;
  Overlay overlay;  // the source as of the last commit; ranges in the log are at their positions in `file`
  uint64_t transactions = 0;
  uint64_t bytes = 0;     // of payload
  uint64_t sequence = 0;  // of the last commit frame
  uint64_t end = 0;       // position after it
  uint64_t checksum = 0;  // of it
};

enum class LogAccess { read, write };

/// Reads and checks the log of this name against its source as it is now. Nothing where there is none or nothing was
/// committed in it, whatever its source: such a log may be removed.
/// EUCLEAN: it is damaged or belongs to another state of the source. ENOTSUP: another format version. EPERM: a
/// stranger's, in a directory where everybody may create files. Also the errors of opening and reading.
Result<std::optional<CommittedLog>> read_log(const File& directory, const std::string& name, const File& source,
                                             LogAccess access);

/// Whether there is anything of this name.
bool log_exists(const File& directory, const std::string& name);

class LogFile {
 public:
  /// Makes a log for a source in this state, durably. EEXIST where there is one. Nothing is left behind on an error.
  static Result<std::unique_ptr<LogFile>> create(FileIo& io, const File& directory, const std::string& name,
                                                 const File& source, const SourceIdentity& identity);
  /// Goes on with what read_log(LogAccess::write) has found; frames that were not committed are dropped.
  LogFile(FileIo& io, CommittedLog&& found);

  /// Takes disk space for `bytes` more, so that they cannot fail for want of it. ENOSPC. Where the filesystem cannot
  /// promise, nothing happens.
  Result<> reserve(uint64_t bytes);
  /// Appends a frame and gives the position of its payload in the log. After an error the log is as it was, and the
  /// call may be repeated.
  Result<uint64_t> append(FrameKind kind, uint64_t offset, Bytes payload);
  /// Appends a commit frame and syncs. ENOSPC, EIO: not committed as far as known, and may be repeated unless broken().
  Result<> commit();
  /// Steps 1 to 3 of a checkpoint. `committed` is the source as of the last commit, which must be the last frame.
  /// After an error in them, frames and `committed` hold as before; it may be repeated unless broken().
  Result<> apply(const Overlay& committed, const File& source);
  /// Step 4: nobody reads the frames of before any more.
  void shorten();
  /// Drops all frames, of which none is committed and nobody reads any.
  void restart();

  /// Why the log must not be trusted any more, if so. A sync failed (the kernel may have dropped the bytes and will
  /// claim success the next time) or the header could not be replaced. All functions above then fail with this.
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }
  [[nodiscard]] bool has_uncommitted() const { return sequence_ != committed_; }
  [[nodiscard]] bool has_committed() const { return committed_ != 0; }
  [[nodiscard]] uint64_t committed_sequence() const { return committed_; }
  [[nodiscard]] uint64_t bytes() const { return end_ - kLogHeaderBytes; }
  [[nodiscard]] const File& file() const { return file_; }

 private:
  LogFile(FileIo& io, File file, const LogHeader& header);
  Result<> check() const;
  Result<> break_with(Error error);
  Result<> write_header(const LogHeader& header);
  Result<> copy(const Overlay& committed, const File& source);

  FileIo& io_;
  File file_;
  LogHeader header_;  // as it is in the file
  uint64_t end_ = kLogHeaderBytes;
  uint64_t reserved_ = 0;   // disk space is there up to this position
  uint64_t sequence_ = 0;   // of the last frame
  uint64_t committed_ = 0;  // sequence number of the last commit frame
  uint64_t checksum_ = 0;   // of the last frame
  std::optional<Error> broken_;
};

}  // namespace codecfs::hdf5
