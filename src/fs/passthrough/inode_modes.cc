#include "fs/passthrough/inode_modes.h"

namespace codecfs::fs {

InodeModes::Open InodeModes::open(Ino ino, BackingPtr offered) {
  const LockGuard lock(mutex_);
  State& state = states_[ino];
  if (state.opens++ == 0) state.backing = std::move(offered);
  return {*this, ino, state.backing};
}

BackingPtr InodeModes::backing_of(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = states_.find(ino);
  return found == states_.end() ? nullptr : found->second.backing;
}

bool InodeModes::is_cached(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = states_.find(ino);
  return found != states_.end() && found->second.backing == nullptr;
}

size_t InodeModes::count() {
  const LockGuard lock(mutex_);
  return states_.size();
}

void InodeModes::close(Ino ino) {
  BackingPtr last;  // released without the lock
  const LockGuard lock(mutex_);
  const auto found = states_.find(ino);
  if (--found->second.opens != 0) return;
  last = std::move(found->second.backing);
  states_.erase(found);
}

}  // namespace codecfs::fs
