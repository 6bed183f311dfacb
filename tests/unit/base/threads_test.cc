// Threads that can be created, and those that cannot.

#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "base/fail_points.h"

namespace codecfs {
namespace {

TEST(Threads, OneThatCannotBeCreatedIsAnError) {
  FailPoints::arm(FailPoint::thread, 1, 1);
  EXPECT_TRUE(start_thread([](const std::stop_token&) {}));
  const auto failed = start_thread([](const std::stop_token&) {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EAGAIN);
  EXPECT_TRUE(failed.error().reason.contains("ulimit -u")) << failed.error().reason;
  EXPECT_TRUE(start_thread([](const std::stop_token&) {}));
  FailPoints::disarm();
}

TEST(Threads, AnExceptionEndsTheThreadAlone) {
  auto thread = start_thread([](const std::stop_token&) { throw std::bad_alloc(); });
  ASSERT_TRUE(thread);
  thread->join();
}

TEST(Threads, WorkIsDoneByThoseThatThereAre) {
  for (int passed = 0; passed < 4; ++passed) {
    FailPoints::arm(FailPoint::thread, passed);
    std::atomic<int> calls = 0;
    run_in_threads(4, [&] { ++calls; });
    EXPECT_EQ(calls, passed == 3 ? 4 : passed + 1);
  }
  FailPoints::disarm();
}

TEST(Threads, AnExceptionOfTheWorkReachesTheCaller) {
  std::atomic<int> calls = 0;
  EXPECT_THROW(run_in_threads(3,
                              [&] {
                                ++calls;
                                throw std::runtime_error("x");
                              }),
               std::runtime_error);
  EXPECT_EQ(calls, 3);
}

TEST(FailPoints, CountPassagesOfTheirKind) {
  FailPoints::arm(FailPoint::memory, 2, 1);
  EXPECT_FALSE(FailPoints::fails(FailPoint::thread));
  EXPECT_NO_THROW(FailPoints::allocate());
  EXPECT_NO_THROW(FailPoints::allocate());
  EXPECT_THROW(FailPoints::allocate(), std::bad_alloc);
  EXPECT_NO_THROW(FailPoints::allocate());
  FailPoints::disarm();
}

}  // namespace
}  // namespace codecfs
