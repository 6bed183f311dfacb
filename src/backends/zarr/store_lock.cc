#include "backends/zarr/store_lock.h"

#include <sys/file.h>

#include "base/log.h"

namespace codecfs::zarr {

StoreLock::StoreLock(const DirectoryStore& store) {
  if (auto directory = store.directory("")) directory_ = std::move(directory->fd);
  if (directory_) ::flock(directory_.get(), LOCK_SH | LOCK_NB);
}

Result<> StoreLock::make_exclusive() {
  if (state_ != State::shared) return {};
  const std::lock_guard lock(mutex_);
  if (state_ != State::shared) return {};
  if (directory_ && ::flock(directory_.get(), LOCK_EX | LOCK_NB) == 0) {
    state_ = State::exclusive;
    return {};
  }
  if (directory_ && errno == EWOULDBLOCK) {
    ::flock(directory_.get(), LOCK_SH | LOCK_NB);  // a failed conversion loses the lock that was there
    return fail(
        EBUSY,
        "the store is open in another codecfs, or locked by another program: unmount it there, then write again");
  }
  log::warning("the store's directory cannot be locked here: see to it that only one codecfs writes it");
  state_ = State::absent;
  return {};
}

void StoreLock::take_over(StoreLock& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  directory_ = std::move(other.directory_);
  state_ = other.state_.load();
}

void StoreLock::make_shared() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::exclusive) return;
  ::flock(directory_.get(), LOCK_SH | LOCK_NB);
  state_ = State::shared;
}

}  // namespace codecfs::zarr
