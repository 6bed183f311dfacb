#include "base/interruptible_sleep.h"

#include <condition_variable>

#include "base/mutex.h"

namespace codecfs {

bool sleep_unless_stopped(const std::stop_token& stop, std::chrono::nanoseconds time) {
  Mutex mutex;  // guards nothing, but a condition variable needs one
  std::condition_variable_any never;
  UniqueLock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace codecfs
