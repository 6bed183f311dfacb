#include "fs/kernel/parked_requests.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/threads.h"

namespace codecfs::fs {

Result<> ParkedRequests::start() {
  CODECFS_ASSIGN(thread_, start_thread([this](const std::stop_token& stop) { run(stop); }));
  const LockGuard lock(mutex_);
  is_open_ = true;
  return {};
}

void ParkedRequests::stop() {
  {
    const LockGuard lock(mutex_);
    is_open_ = false;
  }
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Result<> ParkedRequests::park(fuse_req_t request, size_t bytes, std::function<void()> answer) {
  std::list<Parked> made;
  made.push_back({request, bytes, std::move(answer)});
  const auto at = made.begin();
  {
    const LockGuard lock(mutex_);
    if (!is_open_ || parked_.size() >= kMaxRequests || bytes_ + bytes > kMaxBytes)
      return fail(EBUSY, "the variable is being re-encoded, and too many requests wait for that");
    bytes_ += bytes;
    parked_.splice(parked_.end(), made);
  }
  // Not under the mutex: libfuse may call interrupt() at once. The request must not be answered during this call, which
  // uses it afterwards.
  fuse_req_interrupt_func(request, &ParkedRequests::interrupted, this);
  UniqueLock lock(mutex_);
  at->is_ready = true;
  if (!at->is_interrupted) {
    changed_.notify_all();
    return {};
  }
  bytes_ -= bytes;
  parked_.erase(at);
  changed_.notify_all();
  lock.unlock();
  fuse_reply_err(request, EINTR);
  return {};
}

// Under libfuse's lock of the request, which keeps it alive. Not found: it runs, or has been answered.
void ParkedRequests::interrupt(fuse_req_t request) {
  {
    const LockGuard lock(mutex_);
    const auto at = std::ranges::find(parked_, request, &Parked::request);
    if (at == parked_.end()) return;
    at->is_interrupted = true;
    if (!at->is_ready) return;
    bytes_ -= at->bytes;
    parked_.erase(at);
  }
  fuse_reply_err(request, EINTR);
}

void ParkedRequests::run(const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, stop, [&]() CODECFS_REQUIRES(mutex_) { return !parked_.empty() && parked_.front().is_ready; });
    if (parked_.empty()) {
      if (stop.stop_requested()) return;
      continue;
    }
    if (!parked_.front().is_ready) {  // at the end: only for a moment
      changed_.wait(lock);
      continue;
    }
    std::list<Parked> taken;
    taken.splice(taken.end(), parked_, parked_.begin());
    bytes_ -= taken.front().bytes;
    lock.unlock();
    taken.front().answer();
    taken.clear();
    lock.lock();
  }
}

}  // namespace codecfs::fs
