#include "fs/given/kernel_pages.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/log.h"

namespace codecfs::fs {

/// A running push. When it ends, the threads that wait for it go on.
class KernelPages::Push {
 public:
  Push(KernelPages& pages, Ino ino) : pages_(pages), ino_(ino) {}
  ~Push() { pages_.end_push(ino_); }
  Push(const Push&) = delete;
  Push& operator=(const Push&) = delete;

 private:
  KernelPages& pages_;
  const Ino ino_;
};

bool KernelPages::push_pages(Ino ino, const std::function<bool()>& store) {
  {
    const LockGuard lock(mutex_);
    if (stopped_ || states_.contains(ino)) return false;
    states_[ino].giving = ++pushes_;
    ++giving_;
  }
  const Push push(*this, ino);
  return store();
}

void KernelPages::end_push(Ino ino) noexcept {
  std::vector<std::function<void()>> waiting;
  {
    const LockGuard lock(mutex_);
    const auto found = states_.find(ino);
    found->second.giving = 0;
    waiting.swap(found->second.waiting);
    if (found->second.writers == 0) states_.erase(found);
    changed_.notify_all();
  }
  for (const auto& then : waiting) {
    try {
      then();
    } catch (const std::exception& exception) {
      log::error("internal error: {}", exception.what());
    }
  }
  const LockGuard lock(mutex_);
  if (--giving_ == 0) changed_.notify_all();
}

void KernelPages::after_pushes(Ino ino, std::function<void()> then) {
  {
    const LockGuard lock(mutex_);
    if (const auto found = states_.find(ino); found != states_.end() && found->second.giving != 0) {
      found->second.waiting.push_back(std::move(then));
      return;
    }
  }
  then();
}

void KernelPages::await_quiet(Ino first, uint64_t count) {
  constexpr std::chrono::seconds kPatience{1};
  UniqueLock lock(mutex_);
  const uint64_t latest = pushes_;
  const auto is_given = [&](const auto& item) {
    return item.first - first < count && item.second.giving != 0 && item.second.giving <= latest;
  };
  changed_.wait_for(lock, kPatience, [&]() CODECFS_REQUIRES(mutex_) {
    if (count > 1) return std::ranges::none_of(states_, is_given);
    const auto found = states_.find(first);
    return found == states_.end() || !is_given(*found);
  });
}

void KernelPages::stop() {
  UniqueLock lock(mutex_);
  stopped_ = true;
  changed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return giving_ == 0; });
}

void KernelPages::add_writer(Ino ino) {
  const LockGuard lock(mutex_);
  ++states_[ino].writers;
}

void KernelPages::remove_writer(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = states_.find(ino);
  if (--found->second.writers == 0 && found->second.giving == 0) states_.erase(found);
}

}  // namespace codecfs::fs
