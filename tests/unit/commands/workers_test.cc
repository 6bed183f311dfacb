// Work on all cores: every number once, the first error ends it.

#include "commands/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <new>
#include <vector>

#include "base/fail_points.h"

namespace codecfs::commands {
namespace {

TEST(Workers, EachNumberIsWorkedOnOnce) {
  std::vector<std::atomic<int>> times(1000);
  EXPECT_TRUE(in_parallel(times.size(), [&](uint64_t number) {
    ++times[number];
    return Result<>();
  }));
  for (const auto& count : times) EXPECT_EQ(count, 1);
  EXPECT_TRUE(in_parallel(0, [](uint64_t) { return Result<>(fail(EIO, "there is nothing to do")); }));
}

TEST(Workers, AnErrorEndsIt) {
  std::atomic<int> calls = 0;
  const Result<> done = in_parallel(1'000'000, [&](uint64_t number) -> Result<> {
    ++calls;
    if (number == 10) return fail(ENOSPC, "full");
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ENOSPC);
  EXPECT_LT(calls, 1'000'000);
}

TEST(Workers, ASignalEndsIt) {
  catch_signals();
  const Result<> done = in_parallel(1'000'000, [](uint64_t number) {
    if (number == 5) std::raise(SIGINT);
    return Result<>();
  });
  interrupted = false;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ECANCELED);
}

TEST(InParallel, WorksWithoutOtherThreads) {
  FailPoints::arm(FailPoint::thread, 0);
  std::atomic<uint64_t> sum = 0;
  EXPECT_TRUE(in_parallel(
      100,
      [&](uint64_t number) -> Result<> {
        sum += number;
        return {};
      },
      8));
  FailPoints::disarm();
  EXPECT_EQ(sum, 4950);
}

TEST(InParallel, MemoryThatRunsOutIsAnError) {
  const Result<> done = in_parallel(100, [](uint64_t) -> Result<> { throw std::bad_alloc(); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ENOMEM);
}

}  // namespace
}  // namespace codecfs::commands
