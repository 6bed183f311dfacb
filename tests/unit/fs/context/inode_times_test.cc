// Times of inodes that were set in this mount.

#include "fs/context/inode_times.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

struct stat status_of(const InodeTimes& times, Ino ino) {
  struct stat status{};
  status.st_ino = ino;
  status.st_atim = status.st_mtim = status.st_ctim = {1, 0};
  times.apply(status);
  return status;
}

TEST(InodeTimes, OverwritesOnlyWhatWasSet) {
  InodeTimes times;
  EXPECT_EQ(status_of(times, 5).st_mtim.tv_sec, 1);
  times.set(5, {}, timespec{20, 3});
  EXPECT_EQ(status_of(times, 5).st_atim.tv_sec, 1);
  EXPECT_EQ(status_of(times, 5).st_mtim.tv_sec, 20);
  EXPECT_EQ(status_of(times, 5).st_ctim.tv_nsec, 3);
  times.set(5, timespec{30, 0}, {});
  EXPECT_EQ(status_of(times, 5).st_atim.tv_sec, 30);
  EXPECT_EQ(status_of(times, 5).st_mtim.tv_sec, 20);
}

TEST(InodeTimes, GivesThemToTheInodeThatTakesThePlace) {
  InodeTimes times;
  times.set(5, {}, timespec{20, 0});
  const std::optional<InodeTimes::Times> taken = times.take(5);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->modified->tv_sec, 20);
  EXPECT_FALSE(taken->accessed);
  EXPECT_FALSE(times.take(5));
  EXPECT_EQ(status_of(times, 5).st_mtim.tv_sec, 1);
}

TEST(InodeTimes, IsBounded) {
  InodeTimes times;
  times.set(1, {}, timespec{20, 0});
  times.set(2, {}, timespec{20, 0});
  times.set(1, {}, timespec{21, 0});  // the latest now
  for (Ino ino = 3; ino <= InodeTimes::kMaxInodes + 1; ++ino) times.set(ino, {}, timespec{20, 0});
  EXPECT_EQ(status_of(times, 1).st_mtim.tv_sec, 21);
  EXPECT_EQ(status_of(times, 2).st_mtim.tv_sec, 1);
}

}  // namespace
}  // namespace codecfs::fs
