#pragma once
// Places where tests let the system run out of threads, processes, descriptors or memory.
//
//   if (FailPoints::fails(FailPoint::thread)) throw std::system_error(...);
//
// A unit test arms them in its process. Programs that are built with tests read the environment variable
// CODECFS_FAIL_POINT, "KIND:PASSED[:FAILED]": the first PASSED passages succeed, and the next FAILED ones (all, if it
// is left out) fail. Where nothing is armed, a passage reads one atomic variable.

#include <atomic>
#include <climits>

namespace codecfs {

enum class FailPoint { none, thread, process, descriptor, memory };

class FailPoints {
 public:
  /// From now on, for all threads. It replaces what was armed before.
  static void arm(FailPoint kind, int passed, int failed = INT_MAX);
  static void disarm() { armed_ = FailPoint::none; }
  /// Arms what the environment variable says, in builds with tests. Must be called before there are threads.
  static void arm_from_environment();

  /// Whether the caller must fail. Sets errno to EAGAIN, EMFILE or ENOMEM then.
  static bool fails(FailPoint kind) { return armed_.load(std::memory_order_relaxed) == kind && counts_as_failed(kind); }
  /// std::bad_alloc.
  static void allocate();

 private:
  static bool counts_as_failed(FailPoint kind);

  static inline std::atomic<FailPoint> armed_ = FailPoint::none;
  static inline std::atomic<int> left_ = 0;    // passages that succeed
  static inline std::atomic<int> failed_ = 0;  // then these fail
};

}  // namespace codecfs
