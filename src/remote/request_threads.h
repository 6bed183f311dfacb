#pragma once
// Threads that wait for requests, so that their callers need not. They end when there is nothing to do.
//
// Thread-safe.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>

#include "base/mutex.h"

namespace codecfs::remote {

class RequestThreads {
 public:
  /// `most`: that run at a time; other work waits.
  explicit RequestThreads(size_t most);
  /// Waits for all work.
  ~RequestThreads();
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  /// Waits for all work.
  void wait();

  /// Runs `work`, which must not throw, in one of the threads; in this one if there can be none.
  void run(std::function<void()> work);

 private:
  bool start_thread();
  void serve();

  const size_t most_;
  Mutex mutex_;
  std::condition_variable_any idle_;
  std::deque<std::function<void()>> waiting_ CODECFS_GUARDED_BY(mutex_);
  size_t running_ CODECFS_GUARDED_BY(mutex_) = 0;  // threads
};

}  // namespace codecfs::remote
