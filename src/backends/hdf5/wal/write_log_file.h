#pragma once
// A log that is written: appending to it, and copying it into the source. write_log.h decides when; the bytes are in
// write_log_format.h, reading is in write_log_read.h.
//
// A checkpoint, in this order, so that it may be interrupted anywhere and repeated:
//   0. whether there is room                           ENOSPC here changes nothing
//   1. the header with the mark "begun", synced        from here on the source may differ from its recorded identity
//   2. disk space for all growth of the source         ENOSPC here takes the mark back: no byte of the source changed
//   3. the committed ranges copied into the source, its size set, the source synced (write_log_checkpoint.h)
//   4. a header with a new salt and the source's new identity, synced        from here on the frames are void
//   5. the log shortened to its header                 (what is left if that fails has the wrong salt)
//
// After an error in 3 the source is half written: the bytes that new frames replace are not known then, so nothing can
// be appended until a checkpoint succeeds.
//
// Not safe for use from several threads, but payloads of appended frames may be read by others at any time before 5.

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "backends/hdf5/wal/write_log_read.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

class LogFile {
 public:
  /// Makes a log for a source in this state, durably. EEXIST where there is one. Nothing is left behind on an error.
  /// The source outlives it.
  static Result<std::unique_ptr<LogFile>> create(FileIo& io, const File& directory, const std::string& name,
                                                 const File& source, const SourceIdentity& identity);
  /// Goes on with what read_log(LogAccess::write) has found; frames that were not committed are dropped.
  LogFile(FileIo& io, CommittedLog&& found, const File& source);

  /// Takes a lock on the log, so that a copy of the source does not take the log for its own (write_log_search.h). Done
  /// by the constructors, where no other LogFile has the log open.
  void show_in_use() const;
  /// Takes disk space for `bytes` more, so that they cannot fail for want of it, and holds `growth` for the source,
  /// which the next checkpoint gives back to it. ENOSPC, EDQUOT, EFBIG. Where the filesystem cannot promise, what is
  /// free is compared.
  Result<> reserve(uint64_t bytes, uint64_t growth);
  /// Appends a frame and gives the position of its payload in the log. After an error the log is as it was, and the
  /// call may be repeated.
  Result<uint64_t> append(FrameKind kind, uint64_t offset, Bytes payload);
  /// Appends a commit frame and syncs. ENOSPC, EIO: not committed as far as known, and may be repeated unless broken().
  Result<> commit();
  /// The end of the log, to which rewind() goes back: for frames that have not been read.
  struct Mark {
    uint64_t end, sequence, checksum;
  };
  [[nodiscard]] Mark mark() const { return {end_, sequence_, checksum_}; }
  void rewind(const Mark& mark);
  /// Steps 0 to 4 of a checkpoint. `committed` is the source as of the last commit, which must be the last frame.
  /// After an error in them, frames and `committed` hold as before; it may be repeated unless broken().
  Result<> apply(const Overlay& committed, const File& source);
  /// Step 5: the earlier frames are not read any more.
  void shorten();
  /// Drops all frames, of which none is committed and nobody reads any.
  void restart();

  /// Why the log must not be trusted any more, if so. A sync failed (the kernel may have dropped the bytes and will
  /// claim success the next time) or the header could not be replaced. All functions above then fail with this.
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }
  /// A checkpoint failed in step 3.
  [[nodiscard]] bool checkpoint_begun() const { return header_.checkpoint != 0; }
  [[nodiscard]] bool has_uncommitted() const { return sequence_ != committed_; }
  [[nodiscard]] bool has_committed() const { return committed_ != 0; }
  [[nodiscard]] uint64_t committed_sequence() const { return committed_; }
  [[nodiscard]] uint64_t bytes() const { return end_ - kLogHeaderBytes; }
  /// Disk space that is held beyond the last frame.
  [[nodiscard]] uint64_t held() const { return reserved_ > end_ ? reserved_ - end_ : 0; }
  [[nodiscard]] uint64_t source_size() const { return header_.source.size; }
  [[nodiscard]] uint64_t id() const { return header_.id; }
  [[nodiscard]] const File& file() const { return file_; }

 private:
  LogFile(FileIo& io, File file, const LogHeader& header, const File& source);
  Result<> check() const;
  Result<std::vector<std::byte>> replaced_checksums(const Frame& frame) const;
  void take_back(const File& source);
  Result<> break_with(Error error);
  Result<> write_header(const LogHeader& header);

  FileIo& io_;
  File file_;
  const File& source_;
  LogHeader header_;  // as it is in the file
  uint64_t end_ = kLogHeaderBytes;
  uint64_t reserved_ = 0;   // disk space is there up to this position
  uint64_t sequence_ = 0;   // of the last frame
  uint64_t committed_ = 0;  // sequence number of the last commit frame
  uint64_t checksum_ = 0;   // of the last frame
  std::optional<Error> broken_;
};

}  // namespace codecfs::hdf5
