// Which mounts are recognised as dead, and which of them are detached.

#include "mount/dead_mount.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/log.h"
#include "support/fake_mounts.h"

namespace codecfs::mount {
namespace {

class DeadMount : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_dead_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = std::filesystem::canonical(pattern).string();
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  /// A stack of dead mounts of this type, each of which ends with one call of umount.
  void cover(size_t count, const std::string& type = "fuse.codecfs", int error = ENOTCONN) {
    for (size_t i = 0; i < count; ++i) mounts_.table.push_back({static_cast<int>(40 + i), "0:99", path_, type});
    mounts_.statvfs[path_] = [this, count, error] { return programs_.calls().size() < count ? error : 0; };
  }
  using Lines = std::vector<std::string>;

  std::string path_;
  FakeMounts mounts_;
  FakePrograms programs_;
};

TEST_F(DeadMount, IsDetached) {
  cover(1);
  const Result<> detached = detach_dead_mounts(path_);
  EXPECT_TRUE(detached) << detached.error().reason;
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::detaching(path_)});
  EXPECT_NE(log::recent().find(path_ + ": the daemon of a mount there died; it was unmounted"), std::string::npos);
}

// The call in which the daemon dies fails with another error.
TEST_F(DeadMount, IsRecognisedWhenItDiesDuringTheCall) {
  cover(1, "fuse.codecfs", ECONNABORTED);
  EXPECT_TRUE(detach_dead_mounts(path_));
  EXPECT_EQ(programs_.calls().size(), 1);
}

TEST_F(DeadMount, AllOfAStackAreDetached) {
  cover(3);
  EXPECT_TRUE(detach_dead_mounts(path_));
  EXPECT_EQ(programs_.calls().size(), 3);
}

// A path inside of the mount must not be looked up.
TEST_F(DeadMount, IsFoundWithASlashAtTheEnd) {
  cover(1);
  EXPECT_TRUE(detach_dead_mounts(path_ + "//./"));
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::detaching(path_)});
}

TEST_F(DeadMount, IsFoundThroughALink) {
  cover(1);
  const std::string link = path_ + "_link";
  std::filesystem::create_directory_symlink(path_, link);
  mounts_.statvfs[link] = mounts_.statvfs[path_];
  const Result<> detached = detach_dead_mounts(link);
  std::filesystem::remove(link);
  EXPECT_TRUE(detached);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::detaching(path_)});
}

TEST_F(DeadMount, OtherPathsAreLeftAlone) {
  mounts_.table.push_back({40, "0:99", path_, "fuse.codecfs"});
  EXPECT_TRUE(detach_dead_mounts(path_)) << "a mount with a daemon";
  EXPECT_TRUE(detach_dead_mounts(path_ + "/none"));
  EXPECT_TRUE(detach_dead_mounts("/"));
  EXPECT_TRUE(detach_dead_mounts(""));
  mounts_.statvfs[path_] = [] { return EACCES; };
  EXPECT_TRUE(detach_dead_mounts(path_)) << "a mount of another user";
  EXPECT_EQ(programs_.calls(), Lines{});
}

// Otherwise the exiting daemon would unmount the next mount at this path.
TEST_F(DeadMount, OneWhoseDaemonIsExitingIsNot) {
  mounts_.table.push_back({40, "0:99", path_, "fuse.codecfs"});
  int calls = 0;
  mounts_.statvfs[path_] = [&] { return ++calls < 5 ? ENOTCONN : 0; };
  EXPECT_TRUE(detach_dead_mounts(path_));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(programs_.calls(), Lines{});
}

TEST_F(DeadMount, OfAnotherProgramIsNamedAndStays) {
  cover(1, "fuse.sshfs");
  const Result<> detached = detach_dead_mounts(path_);
  ASSERT_FALSE(detached);
  EXPECT_EQ(detached.error().code, ENOTCONN);
  EXPECT_EQ(detached.error().reason, path_ + ": the dead mount of another program (fuse.sshfs) covers it; unmount " +
                                         "that first (umount -l " + path_ + ")");
  EXPECT_EQ(programs_.calls(), Lines{});
}

TEST_F(DeadMount, BelowOneOfAnotherProgramOnlyOursIsDetached) {
  mounts_.table.push_back({39, "0:98", path_, "fuse.sshfs"});
  mounts_.table.push_back({40, "0:99", path_, "fuse.codecfs"});
  mounts_.statvfs[path_] = [this] {
    if (programs_.calls().size() == 1 && mounts_.table.size() == 2) mounts_.table.pop_back();
    return ENOTCONN;
  };
  const Result<> detached = detach_dead_mounts(path_);
  ASSERT_FALSE(detached);
  EXPECT_NE(detached.error().reason.find("fuse.sshfs"), std::string::npos);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::detaching(path_)});
}

TEST_F(DeadMount, OfAnotherUserIsAnError) {
  cover(1);
  mounts_.statvfs[path_] = [] { return ENOTCONN; };
  programs_.run("exit 32");
  const Result<> detached = detach_dead_mounts(path_);
  ASSERT_FALSE(detached);
  EXPECT_EQ(detached.error().code, ENOTCONN);
  EXPECT_EQ(detached.error().reason, path_ + ": a dead mount covers it, which only root or its owner can unmount");
  EXPECT_EQ(programs_.calls().size(), 1) << "tried once";
}

TEST_F(DeadMount, APathInsideOfOneIsAnError) {
  mounts_.statvfs[path_] = [] { return ENOTCONN; };  // but no entry in the table
  const Result<> detached = detach_dead_mounts(path_);
  ASSERT_FALSE(detached);
  EXPECT_EQ(detached.error().code, ENOTCONN);
  EXPECT_NE(detached.error().reason.find("mount point " + path_), std::string::npos) << detached.error().reason;
  EXPECT_EQ(programs_.calls(), Lines{});
}

}  // namespace
}  // namespace codecfs::mount
