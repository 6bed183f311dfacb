#pragma once
// The lock on a store's directory or archive: shared while it is read, exclusive from the first change to the end, so
// that one program of ours at a time writes a store. It is flock(2) on the thing itself: nothing is left behind by a
// kill.
//
// Best effort: where the filesystem has no such locks (NFS has none for directories) nobody is kept out.

#include <atomic>
#include <mutex>

#include "backends/zarr/store/directory_store.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::zarr {

class StoreLock {
 public:
  /// Takes the shared lock if it can be had.
  explicit StoreLock(const DirectoryStore& store);
  /// `what` it is, for messages.
  StoreLock(UniqueFd file, const char* what);

  /// EBUSY where another program has the store open. Cheap when it was successful before. Safe from all threads.
  Result<> make_exclusive();
  /// Whether nobody else can write: false too where there are no locks.
  [[nodiscard]] bool is_exclusive() const { return state_ == State::exclusive; }
  /// Lets its own lock go and has the other's.
  void take_over(StoreLock& other);
  /// Back to the shared lock.
  void make_shared();

 private:
  enum class State { shared, exclusive, absent };

  UniqueFd file_;  // the directory or archive; none where it cannot be read
  const char* what_ = "the store's directory";
  std::mutex mutex_;  // held while the lock changes
  std::atomic<State> state_ = State::shared;
};

}  // namespace codecfs::zarr
