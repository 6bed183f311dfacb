#include "backends/zarr/store/store_lock.h"

#include <sys/file.h>

#include "base/log.h"

namespace codecfs::zarr {

StoreLock::StoreLock(const DirectoryStore& store) {
  if (auto directory = store.directory("")) file_ = std::move(directory->fd);
  if (file_) ::flock(file_.get(), LOCK_SH | LOCK_NB);
}

StoreLock::StoreLock(UniqueFd file, const char* what) : what_(what), file_(std::move(file)) {
  if (file_) ::flock(file_.get(), LOCK_SH | LOCK_NB);
}

Result<> StoreLock::make_exclusive() {
  if (state_ != State::shared) return {};
  const LockGuard lock(mutex_);
  if (state_ != State::shared) return {};
  if (file_ && ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
    state_ = State::exclusive;
    return {};
  }
  if (file_ && errno == EWOULDBLOCK) {
    ::flock(file_.get(), LOCK_SH | LOCK_NB);  // a failed conversion loses the shared lock
    return fail(
        EBUSY,
        "the store is open in another codecfs, or locked by another program: unmount it there, then write again");
  }
  log::warning("{} cannot be locked here: make sure that only one codecfs writes it", what_);
  state_ = State::absent;
  return {};
}

void StoreLock::take_over(StoreLock& other) {
  UniqueFd file;
  State state{};
  {
    const LockGuard lock(other.mutex_);
    file = std::move(other.file_);
    state = other.state_;
  }
  const LockGuard lock(mutex_);
  file_ = std::move(file);
  state_ = state;
}

void StoreLock::make_shared() {
  const LockGuard lock(mutex_);
  if (state_ != State::exclusive) return;
  ::flock(file_.get(), LOCK_SH | LOCK_NB);
  state_ = State::shared;
}

}  // namespace codecfs::zarr
