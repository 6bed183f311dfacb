// Work on all cores: every number once, the first error ends it.

#include "commands/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <vector>

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

}  // namespace
}  // namespace codecfs::commands
