// Mutual exclusion, and what is known about a failed call of libhdf5.

#include "backends/hdf5/library/library_lock.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

namespace codecfs::hdf5 {
namespace {

constexpr const char* kNothing = "libhdf5 gives no reason";

bool fail_in_library() { return H5Fopen("/no/such/file.h5", H5F_ACC_RDONLY, H5P_DEFAULT) < 0; }

TEST(LatestFailure, NamesTheInnermostFunctionAndItsReason) {
  const LibraryLock lock;
  ASSERT_TRUE(fail_in_library());
  const LibraryFailure failure = latest_failure();
  EXPECT_TRUE(failure.function.starts_with("H5FD")) << failure.function << ": a driver, not H5Fopen";
  EXPECT_NE(failure.reason.find("/no/such/file.h5"), std::string::npos) << failure.reason;
}

TEST(LatestFailure, IsReportedOnce) {
  const LibraryLock lock;
  ASSERT_TRUE(fail_in_library());
  EXPECT_NE(latest_failure().reason, kNothing);
  const LibraryFailure second = latest_failure();
  EXPECT_EQ(second.function, "");
  EXPECT_EQ(second.reason, kNothing);
}

TEST(LatestFailure, EndsWithTheNextCallThatSucceeds) {
  const LibraryLock lock;
  ASSERT_TRUE(fail_in_library());
  const hid_t space = H5Screate(H5S_SCALAR);
  EXPECT_EQ(latest_failure().reason, kNothing);
  H5Sclose(space);
}

TEST(LatestFailure, IsThatOfThisThread) {
  const LibraryLock lock;
  ASSERT_TRUE(fail_in_library());
  std::string seen;
  std::thread([&] { seen = latest_failure().reason; }).join();
  // A build without thread safety has one stack of errors.
  hbool_t is_threadsafe = 0;
  ASSERT_GE(H5is_library_threadsafe(&is_threadsafe), 0);
  if (is_threadsafe) {
    EXPECT_EQ(seen, kNothing);
  }
}

TEST(LatestFailure, IsAppendedToOurDescription) {
  const LibraryLock lock;
  ASSERT_TRUE(fail_in_library());
  const Result<> failed = fail_library(EROFS, "{} cannot be opened", "a.h5");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EROFS);
  EXPECT_TRUE(failed.error().reason.starts_with("a.h5 cannot be opened: ")) << failed.error().reason;
  EXPECT_NE(failed.error().reason.find("/no/such/file.h5"), std::string::npos);
  EXPECT_EQ(latest_failure().reason, kNothing);
}

// In a child, because it is remembered.
TEST(LatestFailure, RemembersThatMemoryWasExhausted) {
  const auto child = [] {
    const LibraryLock lock;
    if (!fail_in_library() || latest_failure().reason == kNothing || library_ran_out_of_memory()) _exit(1);
    H5Epush2(H5E_DEFAULT, __FILE__, "H5FL_malloc", __LINE__, H5E_ERR_CLS, H5E_RESOURCE, H5E_NOSPACE, "%s", "no memory");
    if (latest_failure().reason != "no memory" || !library_ran_out_of_memory()) _exit(2);
    (void)latest_failure();
    _exit(library_ran_out_of_memory() ? 0 : 3);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(LibraryLockTest, MayBeTakenAgainByItsThread) {
  const LibraryLock outer;
  {
    const LibraryLock inner;
    EXPECT_TRUE(fail_in_library());
  }
  EXPECT_NE(latest_failure().reason, kNothing) << "the end of the inner one keeps the error";
}

TEST(LibraryLockTest, OtherThreadsWait) {
  int value = 0;
  std::promise<void> is_running;
  std::future<int> seen;
  {
    const LibraryLock outer;
    seen = std::async(std::launch::async, [&] {
      is_running.set_value();
      const LibraryLock lock;
      return value;
    });
    is_running.get_future().wait();
    {
      const LibraryLock inner;
    }  // still locked after its end
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 1;
  }
  EXPECT_EQ(seen.get(), 1);
}

// The child has no thread that would ever release the lock.
TEST(LibraryLockTest, AForkedProcessCanReplaceOneThatIsHeld) {
  std::promise<void> is_held;
  std::promise<void> is_tested;
  std::thread holder([&] {
    const LibraryLock lock;
    is_held.set_value();
    is_tested.get_future().wait();
  });
  is_held.get_future().wait();
  const auto child = [] {
    ::alarm(60);  // otherwise a failure is a deadlock
    reset_library_lock();
    {
      const LibraryLock lock;
    }
    _exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
  is_tested.set_value();
  holder.join();
}

TEST(LibraryLockTest, ErrorsAreNotPrintedInAnyThread) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    std::thread([] {
      const LibraryLock lock;
      EXPECT_TRUE(fail_in_library());
      (void)latest_failure();
    }).join();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// libhdf5 would load files that other users can write.
TEST(LibraryLockTest, LibrariesOwnPluginLoadingIsDisabled) {
  const LibraryLock lock;
  unsigned kinds = 1;
  ASSERT_GE(H5PLget_loading_state(&kinds), 0);
  EXPECT_EQ(kinds, 0);
}

}  // namespace
}  // namespace codecfs::hdf5
