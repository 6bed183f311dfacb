#pragma once
// The state of the mounted file that all parts of the backend share.

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/written_sources.h"
#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/source/shared_state.h"
#include "backends/hdf5/wal/kept_space.h"
#include "backends/hdf5/wal/write_log.h"
#include "base/fair_shared_mutex.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

class Dataset;

struct SourceFile {
  std::string path;                        // absolute, symlinks resolved
  std::string directory;                   // its parent directory
  std::string working_directory;           // of the process when the file was opened
  UniqueFd fd;                             // the file itself, for stat and locks
  std::shared_ptr<FetchedFile> fetched;    // null for a local file; then `path` is only a name for messages
  std::unique_ptr<LoggedFile> bytes;       // libhdf5's storage, also for direct reads of chunks
  std::unique_ptr<WrittenSource> written;  // while `bytes` has a log; guarded by the LibraryLock
  std::optional<Error> not_writable;       // why it is open for reading only
  struct stat status{};                    // when it was opened
  Handle file;
  bool latest = false;                // Hdf5Options::latest
  bool is_isolated = false;           // another process continues if this one is killed: see seal_change()
  std::atomic<bool> is_bulk = false;  // none does, and changes are sealed by the next commit: Source::change_in_bulk()
  std::unique_ptr<const AccessRecorder> recorder = std::make_unique<AccessRecorder>();

  /// Opens the file in libhdf5 (H5F_ACC_RDWR or H5F_ACC_RDONLY). Under the LibraryLock. EIO with libhdf5's reason.
  Result<Handle> open_in_library(unsigned flags) const;
  /// Opens the file in libhdf5 as open_in_library() does, and stores it in `file`: for writing unless it is
  /// `not_writable`. If libhdf5 refuses writing, sets `not_writable` and opens for reading. EIO.
  Result<> open_as_allowed();
  /// Closes the file in libhdf5, which writes its cached state into `bytes`; all identifiers of the file's objects
  /// become invalid. Under the LibraryLock. EIO if an identifier cannot be closed; ENOSPC.
  Result<> close_in_library();
  /// Makes libhdf5 write its cached state into `bytes`, as at close. EIO, ENOSPC.
  Result<> flush_in_library();
  /// Reopens a closed file for writing. The epoch tells owners of identifiers to reopen their objects. Under the
  /// LibraryLock. EIO: nothing can be read or written any more.
  Result<> reopen_in_library();
  /// Incremented when identifiers become invalid, and when an object becomes outdated. Guarded by the LibraryLock.
  uint64_t epoch = 0;
  /// Marks what Datasets know about the object at this address (its location, pipeline or identity) as invalid:
  /// operations of open Datasets then fail with outdated(). Under the LibraryLock.
  void outdate(uint64_t address);
  /// The epoch in which an object became outdated, by address. Guarded by the LibraryLock.
  std::unordered_map<uint64_t, uint64_t> outdated;

  // The numbers of the stored chunks of the sparse variable that is being listed, for one variable at a time. Guarded
  // by the LibraryLock.
  std::shared_ptr<const std::vector<uint64_t>> listing;
  const Dataset* listing_owner = nullptr;

  /// See SharedState; changed and loaded together with locations under the LibraryLock.
  std::shared_ptr<SharedState> shared = std::make_shared<SharedState>();
  std::atomic<uint64_t>& generation_of(uint64_t address) const {
    return shared->generations[SharedState::slot_of(address)];
  }

  /// Acquires the right to write, once. Under the LibraryLock. EROFS, EBUSY, ESTALE; EIO after a failure.
  Result<> begin_writing();
  /// Must be called before each change, under the LibraryLock: acquires the right to write, and reserves disk space for
  /// writing `bytes` and for growing the file by `growth`, because libhdf5 cannot undo a change that it has begun. Also
  /// ENOSPC. With one argument, both are equal.
  Result<> allow_change(uint64_t both) { return allow_change(both, both); }
  Result<> allow_change(uint64_t bytes, uint64_t growth);
  /// As allow_change(), for a change that may fail, because libhdf5 runs filters or allocates much: seals the previous
  /// changes first, so that a failure rolls back this change alone (but for changes in bulk, which are lost together).
  /// It waits for the disk only if the log is long: call commit_before_risk() before, without the LibraryLock, where
  /// that is likely.
  Result<> allow_risky_change(uint64_t bytes, uint64_t growth);
  Result<> commit_before_risk() { return is_bulk ? Result<>() : commit(); }
  /// Must be called if libhdf5 fails during a change, because its cached state must not be committed. Rolls back to the
  /// last commit and reopens the file, which invalidates all identifiers; if that fails too, further writes fail.
  /// Returns `error`.
  std::unexpected<Error> change_failed(std::unexpected<Error> error);
  std::unexpected<Error> abort_changes(std::unexpected<Error> error, bool loses_others);
  /// Ends a transaction in the log with all changes so far: a failure rolls back later changes alone. Durable after the
  /// next commit. Under the LibraryLock.
  Result<> seal();
  /// As seal(), at the end of a change that is reported as successful: a process that opens the file after this one was
  /// killed finds it.
  Result<> seal_change();
  /// Makes all previous changes durable. Must be called without the LibraryLock and without a ChangeTurn. While the log
  /// is synced, chunks can be located and written. A log that has become long is then brought into the source;
  /// meanwhile chunks can be located and read, and changes wait.
  Result<> commit();
  /// As commit(), for a caller that must hold the LibraryLock throughout.
  Result<> commit_locked();
  /// Writes all committed changes from the log into the source. Under the LibraryLock.
  Result<> checkpoint();
  /// Returns an error once after a failed change has also rolled back earlier, successful ones.
  Result<> report_loss();
  /// Callback, called under the LibraryLock after change_failed() has reopened the file.
  std::function<void()> reopened = [] {};
  /// Discards the changes since the last seal() and reopens the file in libhdf5. Under the LibraryLock, and only if
  /// none of those changes was reported as successful. EIO: further writes fail.
  Result<> roll_back();
  bool changed = false;          // since the last seal(); guarded by the LibraryLock
  uint64_t changes = 0;          // number of changes since the last seal(); guarded by the LibraryLock
  std::optional<Error> failure;  // further writes fail with it; guarded by the LibraryLock
  std::optional<Error> loss;     // not reported yet; guarded by the LibraryLock
  uint64_t loss_epoch = 0;       // when uncommitted changes were lost: older metadata is outdated
  bool rolling_back = false;     // guarded by the LibraryLock

  /// close_in_library(), but keeps the writes in memory.
  Result<> close_and_hold();
  [[nodiscard]] bool has_long_log() const;
  /// The result of a checkpoint of a long log for its commit: lack of space is no error of the commit, which is durable
  /// in the log.
  Result<> forgive_lack_of_space(Result<> checkpointed) const;

  /// Shared: a change is under way; exclusive: a checkpoint without the LibraryLock. See ChangeTurn.
  FairSharedMutex change_turn{LockRank::change_turn};

  struct WrittenMask {
    uint64_t chunk = 0;  // its number
    uint32_t filter_mask = 0;
  };
  /// The filter mask of the chunk that we wrote last in each dataset, by the dataset's address: libhdf5 1.10 returns
  /// the old mask for the chunk that it looked up last, until it looks up another one. Guarded by the LibraryLock.
  std::unordered_map<uint64_t, WrittenMask> written_masks;

  /// Serializes changes of the stored shape. Locked before any other lock of the backend.
  Mutex shape_mutex{LockRank::shape};

  /// Called before the last close_in_library() of a written file: stores the file's free space in unlinked datasets, so
  /// that the next mount can reuse it, if an attribute can record them. EIO: nothing may be committed any more.
  Result<LeftSpace> leave_space();
  /// Free space of the file, in bytes. Under the LibraryLock.
  [[nodiscard]] uint64_t free_space() const;
  /// Free space that libhdf5 lost track of when it closed the file, in bytes. Guarded by the LibraryLock.
  uint64_t untracked_space = 0;
  /// Free space from an earlier mount, until its release is committed. Guarded by the LibraryLock.
  KeptSpace left;
  bool left_is_checked = false;
  bool left_is_released = false;
  /// Must be called before objects or links change: afterwards it is no longer known which datasets hold it. Under the
  /// LibraryLock.
  void check_left_space();

  /// The directory for a relative name in the source: the source's own directory if the file exists there, else the
  /// working directory.
  [[nodiscard]] const std::string& prefix_for(const std::string& name) const {
    struct stat found{};
    return stat((directory + "/" + name).c_str(), &found) == 0 ? directory : working_directory;
  }
};

/// Must exist during each change of the file, and be taken before the LibraryLock and the locks of open datasets: a
/// change that waited for a checkpoint with these locks would make readers wait too. A thread may nest it.
class ChangeTurn {
 public:
  explicit ChangeTurn(SourceFile& file);
  ChangeTurn(const ChangeTurn&) = delete;
  ChangeTurn& operator=(const ChangeTurn&) = delete;
  ~ChangeTurn();

 private:
  SourceFile* const outer_;  // the file of the outer turn of this thread
  std::shared_lock<FairSharedMutex> lock_;
};

}  // namespace codecfs::hdf5
