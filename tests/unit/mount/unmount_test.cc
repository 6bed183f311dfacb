// Unmounting from outside the daemon: what is stored, which programs are called, how the daemon's final status arrives,
// and what is refused. The daemon is an object that answers the extended attributes of its mount point.

#include "mount/unmount.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <optional>

#include "base/unique_fd.h"
#include "fs/kernel/unmount_notifier.h"
#include "support/fake_mounts.h"

namespace codecfs::mount {
namespace {

using Lines = std::vector<std::string>;

class UnmountTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_unmount_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = std::filesystem::canonical(pattern).string();
    mounts_.attribute = [this](const std::string& path, std::string_view name) { return answer(path, name); };
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  void mount_here(const std::string& type = "fuse.codecfs") { mounts_.table.push_back({40, "0:99", path_, type}); }

  std::optional<std::string> answer(const std::string& path, std::string_view name) {
    EXPECT_EQ(path, path_);
    if (name == fs::kNotStoredXattr && !not_stored_.empty()) return not_stored_;
    if (!name.starts_with(fs::kUnmountXattr) || !final_status_) return std::nullopt;
    // Sent before the unmount, and read after it.
    EXPECT_EQ(programs_.calls(), Lines{}) << "registered before the unmount";
    sockaddr_un address;
    const Result<socklen_t> length = fs::make_socket_address(name.substr(fs::kUnmountXattr.size()), address);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!length || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), *length) != 0) return std::nullopt;
    EXPECT_EQ(::write(socket.get(), final_status_->data(), final_status_->size()),
              static_cast<ssize_t>(final_status_->size()));
    return "";
  }
  static std::string lazily(const std::string& path) {
    return (geteuid() == 0 ? "umount -i -l " : "fusermount3 -uz -- ") + path;
  }

  std::string path_;
  std::string not_stored_;                   // user._NotStored
  std::optional<std::string> final_status_;  // none: the daemon is dead, or another program's
  FakeMounts mounts_;
  FakePrograms programs_;
};

TEST_F(UnmountTest, StoresUnmountsAndWaitsForTheStatus) {
  mount_here();
  final_status_ = fs::UnmountNotifier::kStored;
  const Result<> unmounted = unmount(path_);
  EXPECT_TRUE(unmounted) << unmounted.error().reason;
  EXPECT_EQ(mounts_.syncs, 1);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(UnmountTest, ALinkToTheMountPointIsResolved) {
  mount_here();
  const std::string link = path_ + "_link";
  std::filesystem::create_directory_symlink(path_, link);
  const Result<> unmounted = unmount(link);
  std::filesystem::remove(link);
  EXPECT_TRUE(unmounted);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(UnmountTest, WhatIsNoMountOfOursIsRefused) {
  const Result<> none = unmount(path_ + "/none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOENT);
  EXPECT_NE(none.error().reason.find(path_ + "/none"), std::string::npos);

  const Result<> directory = unmount(path_);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, EINVAL);
  EXPECT_EQ(directory.error().reason, path_ + ": no codecfs mount at this path");

  mount_here();
  mount_here("fuse.sshfs");  // covers it
  EXPECT_EQ(unmount(path_).error().code, EINVAL);
  EXPECT_EQ(programs_.calls(), Lines{});
  EXPECT_EQ(mounts_.syncs, 0);
}

TEST_F(UnmountTest, WhatTheDaemonCouldNotStoreIsTheError) {
  mount_here();
  final_status_ = "t.h5: No space left on device\n";
  const Result<> unmounted = unmount(path_);
  ASSERT_FALSE(unmounted);
  EXPECT_EQ(unmounted.error().code, EIO);
  EXPECT_EQ(unmounted.error().reason, "t.h5: No space left on device");
}

TEST_F(UnmountTest, TheEndOfTheLastMountIsNoStatus) {
  mount_here();
  final_status_ = std::string(fs::UnmountNotifier::kUnmounted) + std::string(fs::UnmountNotifier::kStored);
  EXPECT_TRUE(unmount(path_));
  final_status_ = std::string(fs::UnmountNotifier::kUnmounted) + "t.h5: No space left on device\n";
  std::filesystem::remove(programs_.directory() / "calls");
  EXPECT_EQ(unmount(path_).error().reason, "t.h5: No space left on device");
}

TEST_F(UnmountTest, ADaemonThatEndsWithoutAStatusIsAnError) {
  mount_here();
  final_status_ = "";
  const Result<> unmounted = unmount(path_);
  ASSERT_FALSE(unmounted);
  EXPECT_EQ(unmounted.error().code, EIO);
  EXPECT_NE(unmounted.error().reason.find("lost"), std::string::npos) << unmounted.error().reason;
}

TEST_F(UnmountTest, StaysMountedIfNotAllCanBeStored) {
  mount_here();
  final_status_ = fs::UnmountNotifier::kStored;
  mounts_.sync_error = ENOSPC;
  const Result<> unnamed = unmount(path_);
  ASSERT_FALSE(unnamed);
  EXPECT_EQ(unnamed.error().code, ENOSPC);
  EXPECT_EQ(unnamed.error().reason,
            path_ + " stays mounted, because not all data can be stored: No space left on device");
  mounts_.error_text = "t.h5: the disk is full";
  EXPECT_EQ(unmount(path_).error().reason,
            path_ + " stays mounted, because not all data can be stored: t.h5: the disk is full");
  EXPECT_EQ(unmount_for_umount(path_, false, false).error().code, ENOSPC);
  EXPECT_EQ(programs_.calls(), Lines{});
}

TEST_F(UnmountTest, StaysMountedIfFilesWouldBeLost) {
  mount_here();
  not_stored_ = "/notes.txt\n/g/more";
  const Result<> unmounted = unmount(path_);
  ASSERT_FALSE(unmounted);
  EXPECT_EQ(unmounted.error().code, EBUSY);
  EXPECT_NE(unmounted.error().reason.find("lost: '/notes.txt', '/g/more'; copy"), std::string::npos)
      << unmounted.error().reason;
  EXPECT_EQ(programs_.calls(), Lines{});
}

TEST_F(UnmountTest, NamesTenFilesThatWouldBeLost) {
  mount_here();
  for (int i = 0; i < 11; ++i) not_stored_ += fmt::format("{}/f{}", i == 0 ? "" : "\n", i);
  const std::string reason = unmount(path_).error().reason;
  EXPECT_NE(reason.find("'/f9' and more"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("/f10"), std::string::npos) << reason;
}

TEST_F(UnmountTest, ADeadDaemonsMountIsOnlyRemoved) {
  mount_here();
  mounts_.sync_error = ENOTCONN;
  const Result<> unmounted = unmount(path_);
  EXPECT_TRUE(unmounted) << unmounted.error().reason;
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(UnmountTest, AMountInUseIsBusy) {
  mount_here();
  programs_.run("exit 32");
  const Result<> unmounted = unmount(path_);
  ASSERT_FALSE(unmounted);
  EXPECT_EQ(unmounted.error().code, EBUSY);
  EXPECT_EQ(unmounted.error().reason, path_ + " stays mounted");
}

TEST_F(UnmountTest, TheHelperReturnsTheExitCodeOfUmount) {
  final_status_ = fs::UnmountNotifier::kStored;
  EXPECT_EQ(unmount_for_umount(path_, false, false).value(), 0);
  EXPECT_EQ(mounts_.syncs, 1);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(UnmountTest, TheHelperDoesNotWaitIfUmountFails) {
  programs_.run("exit 32");
  final_status_ = "not all was stored\n";
  EXPECT_EQ(unmount_for_umount(path_, false, false).value(), 32);
}

// A program that a signal ends has no exit code: that is umount's code for failures.
TEST_F(UnmountTest, AKilledUmountIsAFailure) {
  programs_.run("kill -9 $$");
  EXPECT_EQ(unmount_for_umount(path_, false, true).value(), 32);
}

TEST_F(UnmountTest, AMissingUmountIsAFailure) {
  for (const char* name : {"umount", "fusermount3"}) std::filesystem::remove(programs_.directory() / name);
  EXPECT_EQ(unmount_for_umount(path_, false, true).value(), 127);
  EXPECT_FALSE(detach_mount(path_));
}

TEST_F(UnmountTest, LazyNeitherStoresNorWaits) {
  mounts_.sync_error = EIO;
  final_status_ = "not all was stored\n";
  EXPECT_EQ(unmount_for_umount(path_, true, false).value(), 0);
  EXPECT_EQ(mounts_.syncs, 0);
  EXPECT_EQ(programs_.calls(), Lines{lazily(path_)});
}

TEST_F(UnmountTest, ForceDoesNotStoreButWaits) {
  mounts_.sync_error = EIO;
  final_status_ = "not all was stored\n";
  EXPECT_EQ(unmount_for_umount(path_, false, true).error().reason, "not all was stored");
  EXPECT_EQ(mounts_.syncs, 0);
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(UnmountTest, TheDaemonUnmountsQuietly) {
  EXPECT_TRUE(detach_mount(path_));
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::detaching(path_)});
  programs_.run("echo 'target is busy' >&2; exit 32");
  testing::internal::CaptureStderr();
  EXPECT_FALSE(detach_mount(path_));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Signals that the daemon blocks would stay blocked in umount.
TEST_F(UnmountTest, ProgramsStartWithoutBlockedSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  programs_.run("kill -TERM $$; exit 0");
  const Result<int> code = unmount_for_umount(path_, false, true);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(code.value(), 32) << "SIGTERM ended it";
}

}  // namespace
}  // namespace codecfs::mount
