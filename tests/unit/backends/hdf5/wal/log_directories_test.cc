// Which directories are known to have no logs.

#include "backends/hdf5/wal/log_directories.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
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
  /// As if its names had not been changed for this time.
  void age(time_t seconds) const {
    const std::array<timespec, 2> times{{{::time(nullptr), 0}, {::time(nullptr) - seconds, ++changes}}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  }
  std::vector<std::string> logs(bool may_remember) const {
    return logs_in(open_directory(path_).value(), may_remember);
  }

  std::string path_;
  static inline long changes = 0;  // another time for each: numbers of inodes are used again
};

const std::string kLog = ".a.h5.codecfs-wal";

TEST_F(LogDirectories, AreListedOnceUntilTheyChange) {
  make("a.h5");
  age(100);
  const DirectoryState state = state_without_logs(path_);
  EXPECT_NE(state, DirectoryState());
  make(kLog);
  EXPECT_EQ(logs(false), std::vector{kLog});
  age(50);
  EXPECT_EQ(logs(true), std::vector{kLog});
  EXPECT_EQ(state_without_logs(path_), DirectoryState());
}

TEST_F(LogDirectories, ThatHaveJustChangedAreNotRemembered) {
  make("a.h5");
  EXPECT_EQ(state_without_logs(path_), DirectoryState());
  EXPECT_EQ(logs(true), std::vector<std::string>());
  make(kLog);
  EXPECT_EQ(logs(true), std::vector{kLog});
}

TEST_F(LogDirectories, OfOtherProcessesAreKnown) {
  make(kLog);
  age(100);
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(logs(true), std::vector{kLog});
  note_without_logs({status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
  EXPECT_EQ(logs(true), std::vector<std::string>());
  EXPECT_EQ(logs(false), std::vector{kLog});
}

}  // namespace
}  // namespace codecfs::hdf5
