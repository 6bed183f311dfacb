#pragma once
// A file with a write-ahead log. Reads return the source overlaid with the writes in the log; only a checkpoint changes
// the source, and an interrupted checkpoint is completed by the next one.
//
//   auto file = LoggedFile::open("data.h5");      // committed changes of a killed writer are visible
//   file->begin_writing();                        // locks the source, creates .data.h5.codecfs-wal
//   file->write(0, bytes); file->commit();        // from here on durable
//   file->finish();                               // checkpoint, removes the log
//
// Durability. Whichever process is killed and whenever the power fails: once commit() has returned, recovery finds its
// state or a later commit's; before that, also the state of the previous commit. It never finds any other state. A
// LoggedFile that is destroyed without finish() behaves as if killed: the log and its commits stay.
//
// Threads. read(), size(), fd() and sync_sealed() are thread-safe. All other functions are for one thread at a time
// (the caller holds the library lock), but a checkpoint that began with stop_writes() needs no lock: write() and
// set_size() wait for its end, and no other function may be called meanwhile. Writes may follow while sync_sealed()
// runs: they belong to the next commit, and recovery ignores them until that is sealed. Readers wait only while the map
// of ranges is replaced, never for disk writes or a checkpoint's copying; a read sees a write completely or not at all.
// Readers do not starve writers.
//
// Locks. An open file holds a shared flock on its source (if the filesystem supports locks), and an exclusive one while
// writing, so that no log is truncated while another process reads from it. If a program holds the exclusive lock
// without a log of ours (libhdf5 does), the file is read without a lock and may be inconsistent.
//
// Errors. After a failed sync (EIO) the kernel may drop dirty pages and report success the next time. So no commit is
// possible until the source is reopened: write(), commit(), checkpoint() and finish() fail with the first reason, and
// the log stays for recovery, which reads it from the disk. Reads continue. Any other error (ENOSPC) affects only the
// call that returned it.
//
// Moved sources. If another program moves the source, the log must follow: see relocate_log(). If the source is deleted
// or replaced (also by `mv` to another filesystem), transactions are still sealed in the log, but commit() reports
// ESTALE, and finish() writes the content to a new file beside the log (write_log_rescue.h). Not detected: a copy that
// another program makes while a checkpoint runs, if it deletes the source after finish().
//
// Finding the log. write_log_search.h and write_log_read.h describe how a log is found and proved to belong to a
// source. Not detected: a change by another program after a kill that preserves size, mtime, the first 4096 bytes and
// all bytes that the log replaces; after a kill during a checkpoint, a change of bytes that the log does not replace.
//
// Disk space. The log reserves the space by which the source will grow, and a checkpoint allocates it before it changes
// the first byte of the source. So a full disk is an error of reserve(), or of a checkpoint that has changed nothing.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/hdf5/format/family_files.h"
#include "backends/hdf5/wal/fetched_file.h"
#include "backends/hdf5/wal/left_space.h"
#include "backends/hdf5/wal/write_log_file.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "backends/hdf5/wal/write_log_search.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/mutex.h"

namespace codecfs::hdf5 {

/// Describes what a killed writer left in a log.
struct LogRecovery {
  bool pending = false;       // the log has commits that are not in the source
  uint64_t transactions = 0;  // commits
  uint64_t bytes = 0;         // written by these commits
};

class LoggedFile {
 public:
  using Recovery = LogRecovery;

  /// Opens the source, a regular file, for reading; changes nothing. The errors of the system calls; EBUSY: another
  /// codecfs is writing it; EUCLEAN, ENOTSUP, EPERM: the log beside it cannot be used (read_log()); those of
  /// FamilyFiles::open().
  static Result<std::unique_ptr<LoggedFile>> open(const std::string& path, FileIo& io = real_file_io());
  /// A source that is no local file, which has no log and cannot be written. `name`: for messages. ENOMEM.
  static Result<std::unique_ptr<LoggedFile>> open_fetched(const std::string& name, std::shared_ptr<FetchedFile> file);
  ~LoggedFile();
  LoggedFile(const LoggedFile&) = delete;
  LoggedFile& operator=(const LoggedFile&) = delete;

  // --- reading

  /// Reads up to to.size() bytes, fewer at the end of the file, and returns how many. EIO if the source has been
  /// truncated.
  Result<size_t> read(uint64_t offset, MutableBytes to) const;
  /// Whether all bytes of a range are those of the source at the same position.
  [[nodiscard]] bool is_in_source(uint64_t offset, uint64_t size) const;
  /// Size including all writes, in bytes.
  [[nodiscard]] uint64_t size() const;
  /// The source, open for reading only.
  [[nodiscard]] int fd() const { return source_.fd.get(); }
  /// The file is the first of a family (HDF5's family driver): reads are of all its members. Not to be written.
  [[nodiscard]] const std::optional<FamilyFiles>& family() const { return family_; }
  /// Another program held the exclusive lock at open(): the content may change or be inconsistent.
  [[nodiscard]] bool locked_by_another() const { return locked_by_another_; }
  /// The log that open() found and that reads include.
  [[nodiscard]] const Recovery& found() const { return found_; }
  /// Identifies the last commit in the log, found or written: the log's id and the number of its last committed frame.
  /// Zeros if there is none.
  struct LastCommit {
    uint64_t log = 0;
    uint64_t sequence = 0;
  };
  [[nodiscard]] LastCommit last_commit() const;
  /// The source has a log that was not found: reads lack its commits, and writing is refused.
  [[nodiscard]] const std::optional<Error>& missing_log() const { return missing_; }
  /// The free space that the previous writer recorded. Empty after begin_writing() if its attribute could not be
  /// removed.
  [[nodiscard]] const LeftSpace& left_space() const { return left_space_; }

  // --- writing

  /// Grows the file if needed. Before begin_writing() the bytes are buffered in memory: read() returns them, and they
  /// are lost unless begin_writing() follows. EFBIG; ENOSPC, EIO: nothing was written.
  Result<> write(uint64_t offset, Bytes bytes);
  /// Truncates the file or extends it with zeros. As write().
  Result<> set_size(uint64_t bytes);
  /// Locks the source, recovers the log of a killed writer, creates a new log, and moves buffered writes to it. Does
  /// nothing if already called. On an error nothing has changed, except that the old log may have been recovered.
  /// EBUSY: another program has the source open with a lock. ESTALE: the source or its log was changed or replaced
  /// since open(). EROFS, EACCES: the file or its directory cannot be written. EMLINK: it has several names, and the
  /// log could not be found from all of them. EUCLEAN: its log is missing; EBUSY: another process has it.
  Result<> begin_writing();
  [[nodiscard]] bool writing() const { return log_ != nullptr; }
  /// Whether the source has the attribute that names its log while it is written: the filesystem then also supports
  /// others.
  [[nodiscard]] bool is_marked() const { return is_marked_; }
  /// Reserves disk space for `bytes` more in the log (after begin_writing()), and for a growth of the source by
  /// `growth` at the next checkpoint, so that ENOSPC, EDQUOT and EFBIG occur here and not in the middle of a change.
  Result<> reserve(uint64_t bytes, uint64_t growth);
  /// Whether the log takes more disk space than is left: a checkpoint would free it.
  [[nodiscard]] bool room_is_short() const;
  /// Makes all writes durable atomically: seal(), then sync_sealed().
  Result<> commit();
  /// Ends a transaction with all writes since the last one. It survives rollback(), and recovery finds all of it or
  /// nothing; it is durable after sync_sealed(). Does nothing if there were no writes. EINVAL: there were writes, but
  /// begin_writing() was not called. ESTALE, EBUSY: see relocate_log(), but a deleted source is no error.
  Result<> seal();
  /// Makes all transactions durable that were sealed before this call, and returns whether there were any that were
  /// not. Must not be called under the library lock where that can be avoided: it waits for the disk. ESTALE: the
  /// source was deleted after it was changed, with what to do; not if a user has deleted the log, too.
  Result<bool> sync_sealed();
  /// If another program has moved the source, moves the log beside it, because it would not be found under the old
  /// name. ESTALE: the source was deleted, or another file has its name. EBUSY: the new name of the log is taken by the
  /// log of another file.
  Result<> relocate_log();
  /// Whether the source was deleted or replaced, so that it has no name. Thread-safe.
  [[nodiscard]] bool is_gone() const;
  /// Copies all commits to the source and empties the log. EINVAL: there are uncommitted writes. After an error
  /// everything is still in the log, and the call may be repeated unless the reason says otherwise. ESTALE: the source
  /// was deleted.
  Result<> checkpoint() { return checkpoint(stop_writes()); }
  /// While the result exists, write() and set_size() of other threads wait.
  [[nodiscard]] std::unique_lock<Mutex> stop_writes() { return std::unique_lock(write_mutex_); }
  Result<> checkpoint(std::unique_lock<Mutex> stopped);
  /// Buffers all further writes in memory, where read() sees them, until release() moves them to the log or rollback()
  /// drops them. Needed while libhdf5 closes a file, because it crashes if a write fails with ENOSPC. commit() fails
  /// meanwhile.
  void hold();
  /// After an error everything is still buffered.
  Result<> release();
  /// Discards all writes since the last commit. After an error nothing has been discarded.
  Result<> rollback();
  /// Size of the log in bytes, to decide on a checkpoint.
  [[nodiscard]] uint64_t log_bytes() const;
  /// Checkpoints, removes the log and downgrades to the shared lock; drops uncommitted writes. Only drops them if
  /// begin_writing() was not called. If the source was deleted after it was changed, writes its content to a new file
  /// before it removes the log: ESTALE, with the path. After an error of the checkpoint or of that
  /// everything is still in the log. After an error of the removal the file is no longer open for writing, and an empty
  /// log may remain, which is harmless. `left`: recorded for the next writer if the filesystem supports extended
  /// attributes.
  Result<> finish(const LeftSpace& left = {});

 private:
  struct Readable {  // the state that readers use
    Overlay overlay;
    int log = -1;     // for Overlay::Origin::log
    int memory = -1;  // for Overlay::Origin::memory
  };

  LoggedFile(FileIo& io, File directory, std::string name, File source);

  void show(Overlay overlay, int log, int memory);
  template <class Change>
  void change(const Change& change);
  Result<> lock_for_writing();
  void unlock();
  Result<FoundLog> find_unchanged() const;
  Result<> recover_found(const FoundLog& found_at);
  Result<> clear_log();
  /// A range of the file, and its position in the log.
  struct Appended {
    uint64_t offset, length, position;
  };
  Result<std::vector<Appended>> append_buffered(LogFile& log, uint64_t size) const;
  void reset_buffer();
  void begin_buffering();
  Result<> buffer_write(uint64_t offset, Bytes bytes);
  void drop_buffered();
  Result<> drop_uncommitted();
  [[nodiscard]] std::unexpected<Error> was_deleted() const;
  Result<std::string> rescue();
  Result<> finish_deleted();
  Result<> remove_log();
  Result<> mark_source(const LogFile& log);
  [[nodiscard]] uint64_t growth_until(uint64_t end) const;

  friend Result<Recovery> check_log(const std::string& path);
  friend Result<Recovery> recover_log(const std::string& path, FileIo& io);

  FileIo& io_;
  File directory_;
  std::string name_;                      // of the source in it; only relocate_log() changes both
  const File source_;                     // for reading; has the shared lock
  std::optional<FamilyFiles> family_;     // never changes after open()
  std::shared_ptr<FetchedFile> fetched_;  // never changes after open(); null for local files
  File writable_;                         // for writing; has the exclusive lock
  SourceIdentity identity_;               // of the source when it was opened or the last log was finished
  std::optional<CommittedLog> old_log_;   // found at open(), visible until begin_writing()
  Recovery found_;
  std::optional<Error> missing_;  // a log that the source's mark names
  LeftSpace left_space_;
  bool is_marked_ = false;
  bool locked_by_another_ = false;
  std::atomic<bool> has_checkpointed_ = false;  // after begin_writing(): a copy of the source may have a part of it
  Mutex sync_mutex_{
      LockRank::log_sync};        // held during a sync and while `log_` is replaced; locked after the library lock
  std::unique_ptr<LogFile> log_;  // changed under both
  UniqueFd buffer_;               // a memfd
  uint64_t buffered_bytes_ = 0;
  Overlay buffered_;                   // the buffered writes alone
  uint64_t size_before_buffered_ = 0;  // of the file
  uint64_t buffered_floor_ = 0;        // the smallest size that the file had while writes were buffered
  bool buffer_dirty_ = false;
  bool rewriting_allocates_ = false;
  bool held_ = false;  // between hold() and release()

  Mutex write_mutex_{LockRank::log_writing};  // held by each change of the log's content and by a checkpoint

  // Lock order: write_mutex_, sync_mutex_, turn_, readable_mutex_. A writer holds turn_ while it waits for readers, so
  // that new readers wait too.
  mutable Mutex turn_{LockRank::log_turn};
  mutable SharedMutex readable_mutex_{LockRank::log_readable};
  Readable readable_;  // only the writing thread changes it, holding both
};

/// Describes the log of a source without changing anything. Errors of LoggedFile::open().
Result<LoggedFile::Recovery> check_log(const std::string& path);
/// As check_log(), and copies the commits to the source and removes the log. May be interrupted and repeated.
Result<LoggedFile::Recovery> recover_log(const std::string& path, FileIo& io = real_file_io());

}  // namespace codecfs::hdf5
