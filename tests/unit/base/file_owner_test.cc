#include "base/file_owner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file_io.h"

namespace codecfs {
namespace {

constexpr uid_t kSomebody = 65534;
constexpr gid_t kAnother = 65533;

class FileOwner : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/ownerXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    directory_ = *open_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static struct stat like(uid_t user, gid_t group, mode_t mode) {
    struct stat status{};
    status.st_uid = user;
    status.st_gid = group;
    status.st_mode = S_IFREG | mode;
    return status;
  }
  struct stat status_of(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(lstat((folder_ + "/" + name).c_str(), &status), 0) << name;
    return status;
  }
  mode_t mode_of(const std::string& name) { return status_of(name).st_mode & 07777; }

  std::string folder_;
  File directory_;
};

TEST_F(FileOwner, RootGivesFilesAway) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  auto file = real_file_io().create(directory_, "a", 0600);
  ASSERT_TRUE(file) << file.error().reason;
  ASSERT_TRUE(make_like(file->fd.get(), like(kSomebody, kAnother, 0640)));
  EXPECT_EQ(status_of("a").st_uid, kSomebody);
  EXPECT_EQ(status_of("a").st_gid, kAnother);
  EXPECT_EQ(mode_of("a"), 0640U);
}

TEST_F(FileOwner, WhatRootMakesBelongsToTheOwnerOfTheDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(chown(folder_.c_str(), kSomebody, kAnother), 0);
  ASSERT_TRUE(real_file_io().create(directory_, "a", 0666));
  ASSERT_TRUE(real_file_io().make_directory(directory_, "d", 02775));
  for (const char* name : {"a", "d"}) {
    EXPECT_EQ(status_of(name).st_uid, kSomebody) << name;
    EXPECT_EQ(status_of(name).st_gid, kAnother) << name;
  }
  EXPECT_EQ(mode_of("a"), 0666U) << "whatever the umask";
  EXPECT_EQ(mode_of("d"), 02775U);
}

TEST_F(FileOwner, AGroupThatCannotBeGivenLeavesOursNoMoreThanAllOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  ASSERT_EQ(setegid(kSomebody), 0);
  ASSERT_EQ(seteuid(kSomebody), 0);
  struct Case {
    mode_t wanted, got;
  };
  int number = 0;
  for (const auto& [wanted, got] : {Case{0660, 0600}, {0666, 0666}, {0640, 0600}, {0664, 0644}, {0600, 0600}}) {
    const std::string name = std::to_string(number++);
    auto file = real_file_io().create(directory_, name, 0600);
    EXPECT_TRUE(file) << file.error().reason;
    if (!file) break;
    EXPECT_TRUE(make_like(file->fd.get(), like(kSomebody, kAnother, wanted)));
    EXPECT_EQ(mode_of(name), got) << std::oct << wanted;
    EXPECT_TRUE(make_like(file->fd.get(), like(kSomebody, kSomebody, wanted)));
    EXPECT_EQ(mode_of(name), wanted);
  }
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(setegid(0), 0);
}

}  // namespace
}  // namespace codecfs
