#pragma once
// Notices that memory is short: by the kernel's pressure stall information, of the system and of the process's cgroup.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace codecfs::fs {

class MemoryPressure {
 public:
  /// Calls `relieve` in a thread of its own, from time to time, while programs wait for memory: each time that some of
  /// them have waited for 150 ms of 2 s. Never, if the kernel has no such information.
  explicit MemoryPressure(std::function<void()> relieve);
  /// Returns when `relieve` does not run.
  ~MemoryPressure();
  MemoryPressure(const MemoryPressure&) = delete;
  MemoryPressure& operator=(const MemoryPressure&) = delete;

 private:
  void run(const std::function<void()>& relieve);

  std::vector<UniqueFd> triggers_;
  UniqueFd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace codecfs::fs
