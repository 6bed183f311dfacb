#include "fs/passthrough/memory_pressure.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "fs/passthrough/memory_budget.h"

namespace codecfs::fs {
namespace {

/// A descriptor that poll() reports when there is pressure; none if the kernel has no such file.
UniqueFd trigger_of(const std::string& file) {
  // Microseconds. Without CAP_SYS_RESOURCE, the second must be a multiple of 2 s.
  constexpr std::string_view kThreshold("some 150000 2000000\0", 20);
  UniqueFd trigger(open(file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (trigger && write(trigger.get(), kThreshold.data(), kThreshold.size()) < 0) trigger.reset();
  return trigger;
}

}  // namespace

MemoryPressure::MemoryPressure(std::function<void()> relieve) : stop_(eventfd(0, EFD_CLOEXEC)) {
  const std::string cgroup = cgroup_directory();
  for (const std::string& file : {std::string("/proc/pressure/memory"), cgroup + "/memory.pressure"})
    if (UniqueFd trigger = trigger_of(file)) triggers_.push_back(std::move(trigger));
  if (triggers_.empty() || !stop_) return;
  try {
    thread_ = std::thread([this, relieve = std::move(relieve)] { run(relieve); });
  } catch (const std::system_error& error) {
    log::warning("memory pressure is not watched: {}", error.what());
  }
}

MemoryPressure::~MemoryPressure() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void MemoryPressure::run(const std::function<void()>& relieve) {
  std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& trigger : triggers_) waits.push_back({trigger.get(), POLLPRI, 0});
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (waits[0].revents != 0) return;
    bool is_short = false;
    for (size_t i = 1; i < waits.size(); ++i) {
      if ((waits[i].revents & POLLERR) != 0)
        waits[i].fd = -1;  // its cgroup was removed
      else if ((waits[i].revents & POLLPRI) != 0)
        is_short = true;
    }
    if (is_short) relieve();
  }
}

}  // namespace codecfs::fs
