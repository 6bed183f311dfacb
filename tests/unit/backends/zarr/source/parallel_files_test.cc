// The loop that makes files in several threads.

#include "backends/zarr/source/parallel_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace codecfs::zarr {
namespace {

TEST(ParallelFiles, EachIsMadeOnce) {
  std::vector<std::atomic<int>> made(1000);
  ASSERT_TRUE(make_in_parallel(made.size(), 1, [&](size_t i) -> Result<> {
    ++made[i];
    return {};
  }));
  for (const auto& count : made) EXPECT_EQ(count, 1);
  EXPECT_TRUE(make_in_parallel(0, 1, [](size_t) -> Result<> { return fail(EIO, "called"); }));
}

TEST(ParallelFiles, AnErrorEndsTheWork) {
  std::atomic<size_t> calls = 0;
  const auto done = make_in_parallel(1'000'000, kParallelMemory, [&](size_t i) -> Result<> {
    ++calls;
    if (i == 10) return fail(ENOSPC, "no room for {}", i);
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ENOSPC);
  EXPECT_EQ(done.error().reason, "no room for 10");
  EXPECT_EQ(calls, 11U) << "one thread";
}

TEST(ParallelFiles, LargeFilesAreMadeByOneThread) {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  ASSERT_TRUE(make_in_parallel(200, kParallelMemory, [&](size_t) -> Result<> {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return {};
  }));
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

}  // namespace
}  // namespace codecfs::zarr
