#include "remote/request_threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace codecfs::remote {

/// All instances: a fork leaves their threads behind.
class RequestThreads::Forks {
 public:
  static void add(RequestThreads* threads) {
    static const int registered = pthread_atfork(before, after, after);
    (void)registered;
    const LockGuard lock(mutex());
    all().push_back(threads);
  }
  static void remove(RequestThreads* threads) {
    const LockGuard lock(mutex());
    std::erase(all(), threads);
  }
  static void set_waits(bool waits) { waits_ = waits; }

 private:
  static inline std::atomic<bool> waits_ = false;
  static Mutex& mutex() {
    static auto* mutex = new Mutex;  // never destroyed: a fork may be the last that a process does
    return *mutex;
  }
  static std::vector<RequestThreads*>& all() {
    static auto* all = new std::vector<RequestThreads*>;
    return *all;
  }
  static void before() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    mutex().lock();
    for (RequestThreads* const threads : all()) {
      threads->mutex_.lock();
      if (waits_) threads->wait_until_idle();
    }
  }
  static void after() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    for (RequestThreads* const threads : all()) threads->mutex_.unlock();
    mutex().unlock();
  }
};

RequestThreads::RequestThreads(size_t most) : most_(std::max<size_t>(most, 1)) { Forks::add(this); }

RequestThreads::~RequestThreads() {
  Forks::remove(this);
  const LockGuard lock(mutex_);
  wait_until_idle();
}

RequestThreads::WaitInForks::WaitInForks() { Forks::set_waits(true); }
RequestThreads::WaitInForks::~WaitInForks() { Forks::set_waits(false); }

void RequestThreads::wait() {
  const LockGuard lock(mutex_);
  wait_until_idle();
}

void RequestThreads::wait_until_idle() {
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
