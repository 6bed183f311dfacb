// Which directories are known to have no logs.

#include "backends/hdf5/wal/log_directories.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace codecfs::hdf5 {
namespace {

class LogDirectories : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "codecfs_logs_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  void make(const std::string& name) const { std::ofstream(path_ + "/" + name) << "x"; }
  /// Until names that change are seen in the time of the directory.
  static void wait_for_new_time() { std::this_thread::sleep_for(std::chrono::milliseconds(3100)); }
  std::vector<std::string> logs(bool may_know) const { return logs_in(open_directory(path_).value(), "", may_know); }

  std::string path_;
};

const std::string kLog = ".a.h5.codecfs-wal";

TEST_F(LogDirectories, AreKnownUntilTheyChange) {
  make("a.h5");
  EXPECT_EQ(state_without_logs(path_), DirectoryState()) << "has just changed";
  wait_for_new_time();
  const DirectoryState state = state_without_logs(path_);
  EXPECT_NE(state, DirectoryState());
  EXPECT_EQ(state_without_logs(path_), state);
  make(kLog);
  EXPECT_EQ(logs(true), std::vector{kLog});
  EXPECT_EQ(state_without_logs(path_), DirectoryState());
  wait_for_new_time();
  EXPECT_EQ(logs(true), std::vector{kLog});
  EXPECT_EQ(state_without_logs(path_), DirectoryState());
}

TEST_F(LogDirectories, OfOtherProcessesAreKnown) {
  make(kLog);
  wait_for_new_time();
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(logs(true), std::vector{kLog});
  note_without_logs({status.st_dev, status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec});
  EXPECT_EQ(logs(true), std::vector<std::string>());
  EXPECT_EQ(logs(false), std::vector{kLog});
}

TEST_F(LogDirectories, OneLogCanBeLeftOut) {
  make(kLog);
  EXPECT_EQ(logs_in(open_directory(path_).value(), kLog, false), std::vector<std::string>());
  EXPECT_EQ(logs_in(open_directory(path_).value(), ".b.h5.codecfs-wal", false), std::vector{kLog});
}

}  // namespace
}  // namespace codecfs::hdf5
