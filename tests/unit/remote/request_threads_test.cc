#include "remote/request_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

namespace codecfs::remote {
namespace {

/// Forks while work runs; whether the work had ended when fork() returned. In a process of its own, whose end ends the
/// work.
bool work_ended_before_fork(bool waits) {
  const pid_t child = fork();
  if (child == 0) {
    static std::atomic<bool> is_released = false;
    static std::atomic<bool> has_ended = false;
    auto* const threads = new RequestThreads(1);
    threads->run([] {
      while (!is_released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      has_ended = true;
    });
    std::optional<RequestThreads::WaitInForks> scope;
    if (waits) {
      scope.emplace();
      std::thread([] { is_released = true; }).detach();
    }
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(0);
    waitpid(grandchild, nullptr, 0);
    _exit(has_ended ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST(RequestThreads, OnlyAForkThatGoesOnWaitsForTheWork) {
  EXPECT_TRUE(work_ended_before_fork(true));
  EXPECT_FALSE(work_ended_before_fork(false));
}

}  // namespace
}  // namespace codecfs::remote
