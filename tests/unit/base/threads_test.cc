// Threads that can be created, and those that cannot.

#include "base/threads.h"

#include <gtest/gtest.h>

#include <new>

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
