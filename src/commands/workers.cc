#include "commands/workers.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace codecfs::commands {

std::atomic<bool> interrupted = false;

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

Result<> in_parallel(uint64_t count, const std::function<Result<>(uint64_t number)>& work) {
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> failed = false;
  Mutex mutex;
  std::optional<Error> first;
  const auto run = [&] {
    for (uint64_t number = 0; !failed && (number = next++) < count;) {
      const Result<> done = interrupted ? Result<>(fail(ECANCELED, "interrupted")) : work(number);
      if (done) continue;
      const LockGuard lock(mutex);
      if (!first) first = done.error();
      failed = true;
    }
  };
  {
    const uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (uint64_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(run);
    run();
  }
  if (first) return std::unexpected(*first);
  return {};
}

}  // namespace codecfs::commands
