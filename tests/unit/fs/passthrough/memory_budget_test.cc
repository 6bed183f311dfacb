#include "fs/passthrough/memory_budget.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace codecfs::fs {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

struct MemoryBudget : testing::Test {
  MemoryBudget() { write("proc/meminfo", "MemTotal:       8388608 kB\nMemFree:     100 kB\n"); }
  ~MemoryBudget() override { std::filesystem::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void use_version_2(const std::string& path) const {
    write("proc/self/cgroup", "0::" + path + "\n");
    write("proc/self/mountinfo",
          "26 23 0:23 / /sys rw - sysfs sysfs rw\n30 26 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  }
  [[nodiscard]] Result<uint64_t> budget() const { return memory_budget(root.string()); }

  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / ("budget" + std::to_string(getpid()));
};

TEST_F(MemoryBudget, AnEighthOfTheMemory) { EXPECT_EQ(budget().value_or(0), kGiB); }

TEST_F(MemoryBudget, AtLeastSomeOrNone) {
  write("proc/meminfo", "MemTotal: 262144 kB\n");
  EXPECT_EQ(budget().value_or(0), 64 * kMiB);
  write("proc/meminfo", "MemTotal: 262143 kB\n");
  EXPECT_EQ(budget().error().code, ENOMEM);
  write("proc/meminfo", "");
  EXPECT_EQ(budget().error().code, ENOMEM);
}

TEST_F(MemoryBudget, AQuarterOfWhatTheCgroupHasLeft) {
  use_version_2("/a/b");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(budget().value_or(0), kGiB);
  write("sys/fs/cgroup/a/memory.max", std::to_string(kGiB));
  write("sys/fs/cgroup/a/memory.current", std::to_string(512 * kMiB));
  EXPECT_EQ(budget().value_or(0), 128 * kMiB) << "of the cgroup above";
  // Pages of files can be reclaimed, but not those of tmpfs.
  write("sys/fs/cgroup/a/memory.stat", "anon 5\nfile 402653184\nshmem 134217728\n");
  EXPECT_EQ(budget().value_or(0), 192 * kMiB);
  write("sys/fs/cgroup/a/b/memory.max", std::to_string(256 * kMiB));
  write("sys/fs/cgroup/a/b/memory.current", std::to_string(16 * kMiB));
  EXPECT_EQ(budget().value_or(0), 64 * kMiB);
  write("sys/fs/cgroup/a/b/memory.max", std::to_string(128 * kMiB));
  EXPECT_EQ(budget().error().code, ENOMEM);
}

TEST_F(MemoryBudget, ACgroupOfTheHostIsNotSeenInAContainer) {
  use_version_2("/kubepods/x");
  write("sys/fs/cgroup/memory.max", std::to_string(kGiB));
  write("sys/fs/cgroup/memory.current", "0");
  EXPECT_EQ(budget().value_or(0), 256 * kMiB);
  EXPECT_EQ(cgroup_directory(root.string()), root.string() + "/sys/fs/cgroup");
}

TEST_F(MemoryBudget, CgroupsOfVersion1) {
  write("proc/self/cgroup", "8:pids:/\n4:cpu,memory:/user\n0::/\n");
  write("proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup "
        "cgroup rw,pids\n");
  write("sys/fs/cgroup/memory/user/memory.limit_in_bytes", std::to_string(kGiB));
  write("sys/fs/cgroup/memory/user/memory.usage_in_bytes", std::to_string(kGiB));
  EXPECT_EQ(budget().error().code, ENOMEM);
  write("sys/fs/cgroup/memory/user/memory.stat", "cache 1\ntotal_cache 1073741824\ntotal_shmem 0\n");
  EXPECT_EQ(budget().value_or(0), 256 * kMiB);
  EXPECT_EQ(cgroup_directory(root.string()), "") << "its memory controller is not of version 2";
}

TEST_F(MemoryBudget, WhatIsAvailable) {
  EXPECT_EQ(available_memory(root.string()), UINT64_MAX) << "not known";
  write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n");
  EXPECT_EQ(available_memory(root.string()), kGiB);
  use_version_2("/a");
  write("sys/fs/cgroup/a/memory.max", std::to_string(kGiB));
  write("sys/fs/cgroup/a/memory.current", std::to_string(kGiB - 5));
  EXPECT_EQ(available_memory(root.string()), 5U);
}

TEST(MemoryBudgetOfThisMachine, IsSensible) {
  const Result<uint64_t> budget = memory_budget();
  EXPECT_GE(budget.value_or(kLeastBudget), kLeastBudget);
}

}  // namespace
}  // namespace codecfs::fs
