#pragma once
// The lock on a store's directory or archive: shared while it is read, exclusive from the first change to the end, so
// that only one codecfs process writes a store at a time. It is flock(2) on the directory or archive itself, so a kill
// leaves nothing behind.
//
// Best effort: on filesystems without such locks (NFS has none for directories) no program is excluded.

#include <atomic>

#include "backends/zarr/store/directory_store.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::zarr {

class StoreLock {
 public:
  /// Takes the shared lock if possible.
  explicit StoreLock(const DirectoryStore& store);
  /// `what`: its name in messages.
  StoreLock(UniqueFd file, const char* what);

  /// EBUSY if another program has the store open. Cheap if already exclusive. Thread-safe.
  Result<> make_exclusive();
  /// Whether other processes cannot write; false if the filesystem has no locks.
  [[nodiscard]] bool is_exclusive() const { return state_ == State::exclusive; }
  /// Replaces this lock by `other`, which becomes empty, and which no other thread may use.
  void take_over(StoreLock& other);
  /// Downgrades to the shared lock.
  void make_shared();

 private:
  enum class State { shared, exclusive, absent };

  const char* what_ = "the store's directory";
  Mutex mutex_;                               // held while the lock changes
  UniqueFd file_ CODECFS_GUARDED_BY(mutex_);  // the directory or archive; none if it cannot be read
  std::atomic<State> state_ = State::shared;
};

}  // namespace codecfs::zarr
