// Which directories -o mkdir creates, and which of them it removes.

#include "mount/mount_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace codecfs::mount {
namespace {

namespace fs = std::filesystem;

class MountDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "codecfs_mkdir_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static MadeDirectories make(const std::string& path) {
    Result<MadeDirectories> made = MadeDirectories::make(path);
    EXPECT_TRUE(made) << made.error().reason;
    return made ? *std::move(made) : MadeDirectories();
  }
  [[nodiscard]] mode_t mode_of(const std::string& name) const {
    struct stat status{};
    EXPECT_EQ(stat(path(name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }
  [[nodiscard]] bool is_empty() const { return fs::is_empty(directory_); }

  fs::path directory_;
};

TEST_F(MountDirectory, ParentsAreMadeAndAllAreRemoved) {
  {
    const MadeDirectories made = make(path("a/b/c"));
    EXPECT_TRUE(fs::is_directory(path("a/b/c")));
  }
  EXPECT_TRUE(is_empty());
}

TEST_F(MountDirectory, WhatExistedStays) {
  fs::create_directories(path("a/b"));
  {
    const MadeDirectories made = make(path("a/b/c/d"));
    EXPECT_TRUE(fs::is_directory(path("a/b/c/d")));
  }
  EXPECT_TRUE(fs::is_directory(path("a/b")));
  EXPECT_TRUE(fs::is_empty(path("a/b")));
  {
    const MadeDirectories made = make(path("a/b"));
  }
  EXPECT_TRUE(fs::is_directory(path("a/b")));
}

TEST_F(MountDirectory, TheUmaskAppliesAsForMkdir) {
  const mode_t before = umask(027);
  const MadeDirectories made = make(path("a/b"));
  umask(before);
  EXPECT_EQ(mode_of("a"), 0750U);
  EXPECT_EQ(mode_of("a/b"), 0750U);
}

TEST_F(MountDirectory, ADirectoryInUseStaysAndSoDoItsParents) {
  MadeDirectories made = make(path("a/b/c"));
  std::ofstream(path("a/b/file")) << "x";
  made.remove();
  EXPECT_FALSE(fs::exists(path("a/b/c")));
  EXPECT_TRUE(fs::exists(path("a/b/file")));
  fs::remove(path("a/b/file"));
  made.remove();  // nothing is left to do
  EXPECT_TRUE(fs::exists(path("a/b")));
}

TEST_F(MountDirectory, AFileInTheWayIsAnErrorThatLeavesNothing) {
  std::ofstream(path("file")) << "x";
  const Result<MadeDirectories> below = MadeDirectories::make(path("file/a"));
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().code, ENOTDIR);
  EXPECT_NE(below.error().reason.find("-o mkdir: " + path("file")), std::string::npos) << below.error().reason;
  const Result<MadeDirectories> itself = MadeDirectories::make(path("file"));
  ASSERT_FALSE(itself);
  EXPECT_EQ(itself.error().code, ENOTDIR);
  EXPECT_TRUE(fs::is_regular_file(path("file")));
}

TEST_F(MountDirectory, AfterAnErrorNoneIsLeft) {
  const std::string long_name(300, 'n');
  const Result<MadeDirectories> made = MadeDirectories::make(path("a/b/" + long_name));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ENAMETOOLONG);
  EXPECT_NE(made.error().reason.find(long_name), std::string::npos);
  EXPECT_TRUE(is_empty());
}

TEST_F(MountDirectory, LinksThatExistAreFollowed) {
  fs::create_directory(path("target"));
  fs::create_directory_symlink(path("target"), path("link"));
  {
    const MadeDirectories made = make(path("link/a"));
    EXPECT_TRUE(fs::is_directory(path("target/a")));
  }
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_empty(path("target")));
}

TEST_F(MountDirectory, ALinkToNothingIsRefused) {
  fs::create_symlink(path("nowhere"), path("link"));
  const Result<MadeDirectories> made = MadeDirectories::make(path("link/a"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ENOENT);
  EXPECT_FALSE(fs::exists(path("nowhere")));
}

// A directory that another program moved away meanwhile is removed where it is now; what has its name stays.
TEST_F(MountDirectory, RemovesWhatItMadeAlsoUnderAMovedParent) {
  MadeDirectories made = make(path("a/b"));
  fs::rename(path("a"), path("moved"));
  fs::create_directories(path("a/b"));
  made.remove();
  EXPECT_FALSE(fs::exists(path("moved/b")));
  EXPECT_TRUE(fs::exists(path("a/b")));
}

TEST_F(MountDirectory, TheLastOwnerRemoves) {
  MadeDirectories kept;
  {
    MadeDirectories made = make(path("a"));
    kept = std::move(made);
  }
  EXPECT_TRUE(fs::exists(path("a")));
  {
    const MadeDirectories moved(std::move(kept));
    EXPECT_TRUE(fs::exists(path("a")));
  }
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace codecfs::mount
