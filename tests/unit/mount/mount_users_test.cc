// Processes that use a directory.

#include "mount/mount_users.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace codecfs::mount {
namespace {

namespace files = std::filesystem;

class MountUsers : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (files::temp_directory_path() / "codecfs_users_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = files::canonical(pattern);
    files::create_directories(directory_ / "mnt/v");
    files::create_directories(directory_ / "mnt2");
  }
  void TearDown() override {
    for (const pid_t process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    files::remove_all(directory_);
  }

  /// A process whose current directory is this one.
  pid_t start_in(const std::string& name) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool is_there = chdir((directory_ / name).c_str()) == 0;
      if (is_there && write(ready[1], "x", 1) == 1) pause();
      _exit(1);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    processes_.push_back(child);
    return child;
  }
  [[nodiscard]] std::string users(size_t most = 10) const {
    return processes_using((directory_ / "mnt").string(), most);
  }

  files::path directory_;
  std::vector<pid_t> processes_;
};

TEST_F(MountUsers, AreThoseAtOrBelowThePath) {
  EXPECT_EQ(users(), "");
  start_in("mnt2");
  start_in(".");
  EXPECT_EQ(users(), "");
  const pid_t below = start_in("mnt/v");
  EXPECT_TRUE(users().starts_with(fmt::format("{} (", below))) << users();
  EXPECT_TRUE(users().ends_with(": its current directory)")) << users();
}

TEST_F(MountUsers, AreNotAllNamedIfTheyAreMany) {
  for (int i = 0; i < 3; ++i) start_in("mnt");
  EXPECT_TRUE(users(2).ends_with(") and more")) << users(2);
  EXPECT_FALSE(users(3).ends_with("more")) << users(3);
}

}  // namespace
}  // namespace codecfs::mount
