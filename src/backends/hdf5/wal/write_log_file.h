#pragma once
// A log that is being written: appends to it and copies it to the source. write_log.h decides when; the format is in
// write_log_format.h, reading is in write_log_read.h.
//
// A checkpoint has these steps, so that it may be interrupted anywhere and repeated:
//   0. check for free space                            ENOSPC here changes nothing
//   1. write the header with "checkpoint begun", sync  from here on the source may differ from its recorded identity
//   2. allocate the space by which the source grows    ENOSPC here reverts step 1: no byte of the source has changed
//   3. copy the committed ranges to the source, set its size, sync (write_log_checkpoint.h)
//   4. write a header with a new salt and the source's new identity, sync    from here on the old frames are invalid
//   5. truncate the log to its header                  (if that fails, the rest has the wrong salt)
//
// After an error in step 3 the source is partly written: the bytes that new frames would replace are unknown then, so
// nothing can be appended until a checkpoint succeeds.
//
// Not thread-safe, but other threads may read payloads of appended frames until step 5, and one of them may be in
// sync() during reserve(), append(), seal() and rewind().

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "backends/hdf5/wal/write_log_read.h"
#include "base/file_io.h"
#include "base/mutex.h"

namespace codecfs::hdf5 {

class LogFile {
 public:
  /// Durably creates a log for a source in this state. EEXIST if there is one. On an error no file is left. The source
  /// must outlive the log.
  static Result<std::unique_ptr<LogFile>> create(FileIo& io, const File& directory, const std::string& name,
                                                 const File& source, const SourceIdentity& identity);
  /// Continues the log that read_log(LogAccess::write) has found and whose commits are synced; uncommitted frames are
  /// dropped.
  LogFile(FileIo& io, CommittedLog&& found, const File& source);

  /// Takes a lock on the log, so that a copy of the source does not use the log as its own (write_log_search.h). The
  /// constructors do this; call it again after another LogFile for the log was closed.
  void show_in_use() const;
  /// Reserves disk space for `bytes` more in the log, so that writing them cannot fail with ENOSPC, and `growth` bytes
  /// that the next checkpoint releases for the source. ENOSPC, EDQUOT, EFBIG. If the filesystem does not support
  /// fallocate, only compares with the free space.
  Result<> reserve(uint64_t bytes, uint64_t growth);
  /// Appends a frame and returns the position of its payload in the log. After an error the log is unchanged, and the
  /// call may be repeated.
  Result<uint64_t> append(FrameKind kind, uint64_t offset, Bytes payload);
  /// Appends a commit frame: recovery finds all earlier frames or none of them. Durable after sync(). As append().
  Result<> seal();
  /// Makes all commits durable that were sealed before this call, and returns whether there were any that were not.
  /// EIO: the log is unusable.
  Result<bool> sync();
  /// A position in the log for rewind(), which may only drop frames that were never read.
  struct Mark {
    uint64_t end, sequence, checksum;
  };
  [[nodiscard]] Mark mark() const { return {end_, sequence_, checksum_}; }
  void rewind(const Mark& mark);
  /// sync() and steps 0 to 4 of a checkpoint. `committed` is the source as of the last commit, which must be the last
  /// frame. After an error, frames and `committed` remain valid; the call may be repeated while the log is usable().
  Result<> apply(const Overlay& committed, const File& source);
  /// Step 5. No thread may still read earlier frames.
  void shorten();
  /// Drops all frames. None may be committed or in use by a reader.
  void restart();

  /// The reason if the log must not be used any more: a sync failed (the kernel may have dropped dirty pages and will
  /// report success the next time) or the header could not be replaced. All functions above then fail with it.
  [[nodiscard]] Result<> usable() const;
  /// A checkpoint failed in step 3.
  [[nodiscard]] bool checkpoint_begun() const { return header_.checkpoint != 0; }
  [[nodiscard]] bool has_uncommitted() const { return sequence_ != committed_; }
  [[nodiscard]] bool has_committed() const { return committed_ != 0; }
  [[nodiscard]] uint64_t committed_sequence() const { return committed_; }
  [[nodiscard]] uint64_t bytes() const { return end_ - kLogHeaderBytes; }
  /// Disk space reserved beyond the last frame.
  [[nodiscard]] uint64_t held() const { return reserved_ > end_ ? reserved_ - end_ : 0; }
  [[nodiscard]] uint64_t source_size() const { return header_.source.size; }
  [[nodiscard]] uint64_t id() const { return header_.id; }
  [[nodiscard]] const File& file() const { return file_; }

 private:
  LogFile(FileIo& io, File file, const LogHeader& header, const File& source);
  Result<std::vector<std::byte>> replaced_checksums(const Frame& frame) const;
  void cancel_checkpoint(const File& source);
  Result<> break_with(Error error);
  Result<> write_header(const LogHeader& header);

  FileIo& io_;
  File file_;
  const File& source_;
  LogHeader header_;  // as stored in the file
  uint64_t end_ = kLogHeaderBytes;
  uint64_t reserved_ = 0;                // disk space is allocated up to this position
  uint64_t sequence_ = 0;                // of the last frame
  std::atomic<uint64_t> committed_ = 0;  // sequence number of the last commit frame
  uint64_t synced_ = 0;                  // of the last commit frame that is durable; for the thread in sync()
  uint64_t checksum_ = 0;                // of the last frame
  mutable Mutex broken_mutex_;
  std::optional<Error> broken_ CODECFS_GUARDED_BY(broken_mutex_);
};

}  // namespace codecfs::hdf5
