#pragma once
// What work costs. Tests replace the clocks.

#include <chrono>
#include <ctime>
#include <functional>

namespace codecfs {

/// Each call returns the time since some moment.
struct Meters {
  std::function<std::chrono::nanoseconds()> elapsed;    // of the wall clock
  std::function<std::chrono::nanoseconds()> processor;  // that this thread has used

  static Meters real() {
    return {.elapsed = [] { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()); },
            .processor =
                [] {
                  timespec time{};
                  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
                  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
                }};
  }
};

}  // namespace codecfs
