#include "remote/request_threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

namespace codecfs::remote {

RequestThreads::RequestThreads(size_t most) : most_(std::max<size_t>(most, 1)) {}

RequestThreads::~RequestThreads() { wait(); }

void RequestThreads::wait() {
  const LockGuard lock(mutex_);
  idle_.wait(mutex_, [&]() CODECFS_REQUIRES(mutex_) { return running_ == 0; });
}

void RequestThreads::run(std::function<void()> work) {
  {
    const LockGuard lock(mutex_);
    const bool has_room = running_ < most_;
    if (!has_room || start_thread()) {
      if (has_room) ++running_;
      waiting_.push_back(std::move(work));
      return;
    }
  }
  work();
}

bool RequestThreads::start_thread() {
  // Signals are for the threads of the program, which may wait for them.
  sigset_t all_signals;
  sigset_t before;
  ::sigfillset(&all_signals);
  ::pthread_sigmask(SIG_SETMASK, &all_signals, &before);
  bool started = true;
  try {
    std::thread([this] { serve(); }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void RequestThreads::serve() {
  for (;;) {
    std::function<void()> work;
    {
      const LockGuard lock(mutex_);
      if (waiting_.empty()) {
        // Under the lock: the destructor may run as soon as it is released.
        if (--running_ == 0) idle_.notify_all();
        return;
      }
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace codecfs::remote
