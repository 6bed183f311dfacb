// When a mount counts as idle, and what keeps it. The time without use is zero here, so that each test of the mount
// decides, and nothing depends on the clock.

#include "mount/idle_unmounter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "support/fake_mounts.h"
#include "support/filesystem_testing.h"
#include "support/processes.h"

namespace codecfs::mount {
namespace {

using Lines = std::vector<std::string>;

class IdleUnmounterTest : public fs::FilesystemTest {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_idle_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = (directory_ / "mount").string();
    std::filesystem::create_directory(path_);
    ASSERT_TRUE(log::to_file((directory_ / "log").string()));  // a message for each attempt
  }
  void TearDown() override {
    log::to_stderr();
    std::filesystem::remove_all(directory_);
  }

  fs::Mount make_mount() { return fs::Mount{fs(), path_, notifier_}; }

  /// Waits for an event that must occur.
  template <class Condition>
  static void await(const Condition& condition) {
    ASSERT_TRUE(codecfs::await(condition));
  }
  void await_unmount() {
    await([this] { return !programs_.calls().empty(); });
  }
  /// Waits until the mount was tested several times.
  static void await_tests(fs::Mount& mount) {
    for (int i = 0; i < 20 && !HasFatalFailure(); ++i) {
      mount.used = true;
      await([&] { return !mount.used; });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  static bool has_logged(const std::string& text) { return log::recent().find(text) != std::string::npos; }

  std::filesystem::path directory_;
  std::string path_;
  fs::UnmountNotifier notifier_;
  FakePrograms programs_;
};

TEST_F(IdleUnmounterTest, AnIdleMountIsUnmountedOnce) {
  fs::Mount mount = make_mount();
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await([] { return has_logged("unmounted after 0 s without use"); });
  EXPECT_EQ(programs_.calls(), Lines{FakePrograms::unmounting(path_)});
}

TEST_F(IdleUnmounterTest, ItsEndDoesNotUnmount) {
  fs::Mount mount = make_mount();
  {
    const IdleUnmounter unmounter(mount, std::chrono::hours(1));
  }
  EXPECT_EQ(programs_.calls(), Lines{});
}

TEST_F(IdleUnmounterTest, AnOpenFileKeepsTheMount) {
  fs::Mount mount = make_mount();
  const uint64_t file = mount.files.add(*fs().files().open(ino("/v/0"), false, false));
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await_tests(mount);
  EXPECT_EQ(programs_.calls(), Lines{});
  mount.files.close(file);
  await_unmount();
}

TEST_F(IdleUnmounterTest, AnOpenDirectoryKeepsTheMount) {
  fs::Mount mount = make_mount();
  const uint64_t directory = mount.directories.add(*fs().listing().open(ino("/g")));
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await_tests(mount);
  EXPECT_EQ(programs_.calls(), Lines{});
  mount.directories.close(directory);
  await_unmount();
}

TEST_F(IdleUnmounterTest, EverythingIsStoredBeforeTheUnmount) {
  fs::Mount mount = make_mount();
  ASSERT_TRUE(write_file("/v/0", "wxyz"));
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await_unmount();
  EXPECT_EQ(source_->chunk("/v", 0), "wxyz");
}

TEST_F(IdleUnmounterTest, AMountThatCannotStoreStaysUntilItCan) {
  fs::Mount mount = make_mount();
  ASSERT_TRUE(write_file("/v/0", "wxyz"));
  source_->is_full = true;
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await([] { return has_logged("the mount is idle but stays, because not all data could be stored: "); });
  EXPECT_EQ(programs_.calls(), Lines{});
  source_->is_full = false;
  await_unmount();
  EXPECT_EQ(source_->chunk("/v", 0), "wxyz");
}

TEST_F(IdleUnmounterTest, AMountWithFilesThatWouldBeLostStays) {
  fs::Mount mount = make_mount();
  ASSERT_TRUE(write_file("/v/.b.tmp", "text"));
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await([] { return has_logged("the mount is idle but stays, because unmounting would lose /v/.b.tmp"); });
  EXPECT_EQ(programs_.calls(), Lines{});
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), ".b.tmp"));
  await_unmount();
}

// The kernel knows users that send no requests: working directories and mappings.
TEST_F(IdleUnmounterTest, AMountThatIsBusyIsTriedAgain) {
  fs::Mount mount = make_mount();
  programs_.run("[ -e again ] || { : > again; exit 32; }");
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  await([this] { return programs_.calls().size() == 2; });
  await([] { return has_logged("unmounted after 0 s without use"); });
}

TEST_F(IdleUnmounterTest, AMountThatAnotherOneCoversStays) {
  fs::Mount mount = make_mount();
  const uint64_t file = mount.files.add(*fs().files().open(ino("/v/0"), false, false));
  const IdleUnmounter unmounter(mount, std::chrono::seconds(0));
  std::filesystem::remove(path_);
  std::filesystem::create_directory_symlink("/proc", path_);  // another device, as another mount would be
  mount.files.close(file);
  await_tests(mount);
  EXPECT_EQ(programs_.calls(), Lines{});
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  await_unmount();
}

}  // namespace
}  // namespace codecfs::mount
