#pragma once
// Requests that wait for a re-encoding (see RecodingPolicy), or re-encode a variable themselves. One thread of its own
// answers them in their order, so that none of those that serve requests waits. Thread-safe.
//
// A request is interrupted (FUSE INTERRUPT) in two ways: while it is parked, libfuse's thread that receives the
// interrupt answers it with EINTR; once it runs, its function finds out by fuse_req_interrupted().

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/passthrough/fuse_version.h"

namespace codecfs::fs {

class ParkedRequests {
 public:
  ParkedRequests() = default;
  ~ParkedRequests() { stop(); }
  ParkedRequests(const ParkedRequests&) = delete;
  ParkedRequests& operator=(const ParkedRequests&) = delete;

  static constexpr size_t kMaxRequests = 4096;
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  /// Must be called before requests are parked. The errors of start_thread().
  Result<> start();
  /// Answers all that are parked, and ends the thread. No more can be parked. Must be called while replies are
  /// possible.
  void stop();

  /// `answer` will answer the request. `bytes`: memory that it holds. EBUSY if too many requests are parked; then the
  /// caller answers.
  Result<> park(fuse_req_t request, size_t bytes, std::function<void()> answer);

 private:
  struct Parked {
    fuse_req_t request;
    size_t bytes;
    std::function<void()> answer;
    bool is_ready = false;        // libfuse knows which function to call
    bool is_interrupted = false;  // before that
  };
  static void interrupted(fuse_req_t request, void* self) { static_cast<ParkedRequests*>(self)->interrupt(request); }
  void interrupt(fuse_req_t request);
  void run(const std::stop_token& stop);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::list<Parked> parked_ CODECFS_GUARDED_BY(mutex_);
  size_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;
  bool is_open_ CODECFS_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace codecfs::fs
