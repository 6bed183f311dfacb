#pragma once
// A file under a write-ahead log: reads show the source overlaid with what was written; the source itself changes only
// in a checkpoint, which may be cut short anywhere and is then finished by the next one.
//
//   auto file = LoggedFile::open("data.h5");      // committed changes that a killed writer left behind are shown
//   file->begin_writing();                        // locks the source, makes .data.h5.codecfs-wal
//   file->write(0, bytes); file->commit();        // from here on durable
//   file->finish();                               // source up to date, log gone
//
// What survives: after commit() has returned, its state or a later commit's, whatever is killed and wherever the power
// fails; before, the state of the commit before it. Never anything else. A file that is destroyed without finish() is
// as one that was killed: the log stays, and its commits with it.
//
// Threads. read(), size() and fd() are for all threads at any time. Everything else is for one thread at a time (the
// caller holds the library lock). Readers wait only while the map of ranges is exchanged, never for the disk's writes
// or a checkpoint's copying; a read sees a write wholly or not at all. Writers are not starved by readers.
//
// Locks. An open file holds a shared flock on its source (where the filesystem has locks), one that writes an exclusive
// one, so nobody's log is shortened under a reader. Where a program holds the exclusive lock without a log of ours
// (libhdf5 does), the file is read without a lock, at the risk of the reader.
//
// After a failed sync (EIO) the kernel may drop what it could not write and claim success the next time. So nothing is
// committed after it until the source is opened again: write(), commit(), checkpoint() and finish() fail with the first
// reason, and the log stays for recovery, which reads it from the disk. Reading goes on. Any other error (ENOSPC) loses
// only the call that had it.
//
// A source that somebody moves takes its log along: see relocate_log(). What was written to one that is deleted, or
// replaced, and not committed is lost, and commit() says so.
//
// The log is found, and known to belong to the source, wherever both are: write_log_search.h, write_log_read.h. Not
// detected: a change by another program after a kill that leaves size, mtime, the first 4096 bytes and all bytes that
// the log replaces as they were; after a kill in the middle of a checkpoint, one of bytes that the log does not
// replace.
//
// Room. The log holds the disk space that the source will grow by, and a checkpoint takes it before it changes the
// first byte of the source. So a full disk is an error of reserve(), or of a checkpoint that has changed nothing.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "backends/hdf5/recode/left_space.h"
#include "backends/hdf5/wal/write_log_file.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "backends/hdf5/wal/write_log_search.h"
#include "base/buffer.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// What a killed writer left in a log.
struct LogRecovery {
  bool pending = false;       // something was committed that is not in the source
  uint64_t transactions = 0;  // commits
  uint64_t bytes = 0;         // written by them
};

class LoggedFile {
 public:
  using Recovery = LogRecovery;

  /// Opens the source, which must be a regular file, for reading; writes nothing. The errors of the system calls;
  /// EBUSY: another codecfs is writing it; EUCLEAN, ENOTSUP, EPERM: the log beside it cannot be used (read_log()).
  static Result<std::unique_ptr<LoggedFile>> open(const std::string& path, FileIo& io = real_file_io());
  ~LoggedFile();
  LoggedFile(const LoggedFile&) = delete;
  LoggedFile& operator=(const LoggedFile&) = delete;

  // --- reading

  /// As much of `to` as there is before the end of the file: bytes read. EIO where the source became shorter.
  Result<size_t> read(uint64_t offset, MutableBytes to) const;
  /// The end of the file as written, in bytes.
  [[nodiscard]] uint64_t size() const;
  /// The source, open for reading only.
  [[nodiscard]] int fd() const { return source_.fd.get(); }
  /// Somebody else held the exclusive lock at open(): what is shown may change or be damaged.
  [[nodiscard]] bool locked_by_another() const { return locked_by_another_; }
  /// What was found at open() and is shown.
  [[nodiscard]] const Recovery& found() const { return found_; }
  /// The source has a log that was not found: what is shown lacks what was written last, and nothing can be written.
  [[nodiscard]] const std::optional<Error>& missing_log() const { return missing_; }
  /// The free space that the last writer has left. Empty after begin_writing() where the attribute that tells of it
  /// could not be removed.
  [[nodiscard]] const LeftSpace& left_space() const { return left_space_; }

  // --- writing

  /// Grows the file where need be. Before begin_writing() the bytes are kept aside in memory: they are seen by read(),
  /// and lost unless begin_writing() follows. EFBIG; ENOSPC, EIO: nothing was written.
  Result<> write(uint64_t offset, Bytes bytes);
  /// Cuts the file or adds zeros. As write().
  Result<> set_size(uint64_t bytes);
  /// Locks the source, copies what a killed writer left in a log into it, makes a log, and moves what was kept aside
  /// there. Does nothing where it was called before. On an error nothing has changed, but that the old log may have
  /// been recovered. EBUSY: somebody else has the source open with a lock. ESTALE: the source or its log was changed or
  /// replaced since open(). EROFS, EACCES: the file or its directory cannot be written. EMLINK: it has several names,
  /// and not all would lead to the log. EUCLEAN: its log is missing; EBUSY: another process has it.
  Result<> begin_writing();
  [[nodiscard]] bool writing() const { return log_ != nullptr; }
  /// Whether the source has the attribute that names its log, while it is written: so there may be others.
  [[nodiscard]] bool is_marked() const { return is_marked_; }
  /// Takes disk space so that `bytes` more can be written into the log (after begin_writing()), and that the source can
  /// grow by `growth` at the next checkpoint: ENOSPC, EDQUOT, EFBIG now and not in the middle of a change.
  Result<> reserve(uint64_t bytes, uint64_t growth);
  /// Whether the log takes more of the disk than is left: a checkpoint would free that.
  [[nodiscard]] bool room_is_short() const;
  /// Makes everything written so far durable, all or nothing. Nothing happens where nothing was written since the last.
  /// EINVAL: something was written, but begin_writing() was not called. ESTALE, EBUSY: relocate_log().
  Result<> commit();
  /// Where somebody has moved the source, moves the log beside it: under the old name nobody would find it. ESTALE: the
  /// source is gone, or another file has its name. EBUSY: the log of another file is in the way.
  Result<> relocate_log();
  /// Whether the source was deleted or replaced: no name leads to it.
  [[nodiscard]] bool is_gone() const;
  /// Brings the source up to the last commit and empties the log. EINVAL: something is not committed. After an error
  /// everything is still in the log, and it may be repeated unless the reason says otherwise.
  Result<> checkpoint();
  /// From now on what is written is kept in memory, where it is seen by read(), until release() brings it into the log
  /// or rollback() drops it: libhdf5 must not meet a full disk while it closes a file, as it does not survive that.
  /// commit() fails meanwhile.
  void hold();
  /// After an error all is held as before.
  Result<> release();
  /// Takes back everything that was written since the last commit; readers see its state again. After an error nothing
  /// has been taken back.
  Result<> rollback();
  /// Bytes in the log, to decide on a checkpoint.
  [[nodiscard]] uint64_t log_bytes() const;
  /// Checkpoint, removal of the log, shared lock instead of the exclusive one; what was not committed is dropped. Does
  /// nothing but the dropping where nothing is being written. Of a source that is gone it removes the log. After an
  /// error of the checkpoint everything is still in the log; after one of the removal the file is no longer written,
  /// and an empty log may be left, which does no harm. `left`: committed, for the next writer, where the filesystem has
  /// extended attributes.
  Result<> finish(const LeftSpace& left = {});

 private:
  struct Readable {  // what a reader needs
    Overlay overlay;
    int log = -1;    // of Overlay::Origin::log
    int aside = -1;  // of Overlay::Origin::aside
  };

  LoggedFile(FileIo& io, File directory, std::string name, File source);

  void show(Overlay overlay, int log, int aside);
  template <class Change>
  void change(const Change& change);
  Result<> lock_for_writing();
  void unlock();
  Result<FoundLog> find_unchanged() const;
  Result<> recover_found(const FoundLog& found_at);
  Result<> clear_log();
  Result<Overlay> move_aside_into(LogFile& log, Overlay overlay) const;
  void forget_aside();
  Result<> keep_aside(uint64_t offset, Bytes bytes);
  void drop_aside();
  Result<> drop_uncommitted();
  Result<> give_up();
  Result<> remove_log();
  Result<> mark_source(const LogFile& log);
  [[nodiscard]] uint64_t growth_until(uint64_t end) const;

  friend Result<Recovery> check_log(const std::string& path);
  friend Result<Recovery> recover_log(const std::string& path, FileIo& io);

  FileIo& io_;
  File directory_;
  std::string name_;                     // of the source in it; both change in relocate_log() alone
  const File source_;                    // for reading; holds the shared lock
  File writable_;                        // for writing; holds the exclusive lock
  SourceIdentity identity_;              // of the source when it was opened or the last log was finished
  std::optional<CommittedLog> old_log_;  // found at open(), shown until begin_writing()
  Recovery found_;
  std::optional<Error> missing_;  // a log that the source is marked to have
  LeftSpace left_space_;
  bool is_marked_ = false;
  bool locked_by_another_ = false;
  std::unique_ptr<LogFile> log_;
  UniqueFd aside_;  // a memfd
  uint64_t aside_bytes_ = 0;
  uint64_t aside_floor_ = 0;  // the smallest size that the file had while writes were kept aside
  bool aside_dirty_ = false;
  bool rewriting_takes_room_ = false;
  std::optional<Overlay> held_;  // as it was at hold()

  // Lock order: turn_, readable_mutex_. A writer holds turn_ while it waits for the readers, so that new ones wait too.
  mutable std::mutex turn_;
  mutable std::shared_mutex readable_mutex_;
  Readable readable_;  // changed by the writing thread only, under both
};

/// What a killed writer left in the log of a source; changes nothing. Errors of LoggedFile::open().
Result<LoggedFile::Recovery> check_log(const std::string& path);
/// The same, and copies it into the source and removes the log. May be interrupted and repeated.
Result<LoggedFile::Recovery> recover_log(const std::string& path, FileIo& io = real_file_io());

}  // namespace codecfs::hdf5
