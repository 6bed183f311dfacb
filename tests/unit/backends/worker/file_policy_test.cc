// Which files the process of libhdf5 may read and write.

#include "backends/worker/file_policy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace codecfs::worker {
namespace {

using Use = FilePolicy::Use;
namespace fs = std::filesystem;

class FilePolicyTest : public testing::Test {
 protected:
  FilePolicyTest() {
    std::string pattern = (fs::canonical(fs::temp_directory_path()) / "codecfs_policy_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    fs::create_directories(folder_ / "home/deeper");
    fs::create_directories(folder_ / "elsewhere");
    for (const char* name : {"home/a.h5", "home/b.h5", "home/deeper/c.raw", "elsewhere/d.raw", "home/.b.h5.codecfs-wal",
                             "home/.old.h5.codecfs-wal", "elsewhere/.a.h5.codecfs-wal", "elsewhere/.m.h5.codecfs-wal"})
      std::ofstream(folder_ / name) << name;
    fs::create_symlink("../elsewhere", folder_ / "home/out");
    fs::create_symlink("deeper/c.raw", folder_ / "home/in");
    fs::create_symlink(folder_ / "elsewhere/d.raw", folder_ / "home/absolute");
    fs::create_hard_link(folder_ / "home/a.h5", folder_ / "home/second.h5");
  }
  ~FilePolicyTest() override { fs::remove_all(folder_); }

  FilePolicy make(Follow follow, bool may_write = true, ReferenceRules more = {}) {
    more.follow = follow;
    const std::string source = in("home/a.h5");
    return FilePolicy({.source = source,
                       .may_write = may_write,
                       .working_directory = in("home"),
                       .references = more,
                       .libraries = {in("elsewhere/plugins"), "/usr/lib"}},
                      UniqueFd(::open(source.c_str(), O_RDONLY | O_CLOEXEC)));
  }
  [[nodiscard]] std::string in(const std::string& name) const { return (folder_ / name).string(); }
  static int read(FilePolicy& policy, const std::string& path, Use use = Use::read) {
    const auto found = policy.find({UniqueFd(), path}, use, true);
    return found ? 0 : found.error().code;
  }
  static int write(FilePolicy& policy, const std::string& path) {
    const auto place = policy.find_written({UniqueFd(), path});
    return place ? 0 : place.error().code;
  }

  fs::path folder_;
};

TEST_F(FilePolicyTest, ReadsBeneath) {
  FilePolicy policy = make(Follow::beneath);
  for (const char* name : {"a.h5", "b.h5", "deeper/c.raw", "deeper/../b.h5", "in", ".b.h5.codecfs-wal", "deeper", "."})
    EXPECT_EQ(read(policy, name), 0) << name;
  EXPECT_EQ(read(policy, in("home/deeper/c.raw")), 0);
  EXPECT_EQ(read(policy, in("home")), 0);
  EXPECT_EQ(read(policy, "none"), ENOENT);
  EXPECT_EQ(read(policy, ""), ENOENT);
  for (const char* name : {"../elsewhere/d.raw", "out/d.raw", "absolute", "deeper/../../elsewhere/d.raw", "out", "..",
                           "../home/a.h5/../../elsewhere/d.raw", "../none"})
    EXPECT_EQ(read(policy, name), EACCES) << name;
  for (const std::string& path : {in("elsewhere/d.raw"), in("elsewhere"), in("homework"), std::string("/etc/passwd"),
                                  std::string("/usr/lib/../../etc/passwd"), std::string("/")})
    EXPECT_EQ(read(policy, path), EACCES) << path;
  // The ancestors of the directory can be looked at, so that paths can be resolved.
  EXPECT_EQ(read(policy, folder_.string(), Use::look), 0);
  EXPECT_EQ(read(policy, "/", Use::look), 0);
  EXPECT_EQ(read(policy, in("elsewhere/d.raw"), Use::look), EACCES);
  EXPECT_EQ(read(policy, "/usr/lib"), 0);
}

TEST_F(FilePolicyTest, ReadsAll) {
  FilePolicy policy = make(Follow::all, true, {.follow = Follow::all, .folder = {}, .mountpoint = in("mnt")});
  for (const char* name : {"a.h5", "../elsewhere/d.raw", "out/d.raw", "absolute", "/etc/passwd"})
    EXPECT_EQ(read(policy, name), 0) << name;
  for (const char* name : {"/dev/zero", "/proc/self/status", "/sys/kernel/vmcoreinfo"})
    EXPECT_NE(read(policy, name), 0) << name;
  EXPECT_EQ(read(policy, in("mnt/v/0")), EACCES);
  EXPECT_EQ(read(policy, in("mnt/v/0"), Use::look), EACCES);
}

TEST_F(FilePolicyTest, RelativeToADirectory) {
  FilePolicy policy = make(Follow::beneath);
  const auto find = [&](const char* directory, const std::string& path) {
    const UniqueFd at(::open(in(directory).c_str(), O_PATH | O_CLOEXEC));
    const auto found = policy.find({at, path}, Use::read, true);
    return found ? 0 : found.error().code;
  };
  EXPECT_EQ(find("home", "b.h5"), 0);
  EXPECT_EQ(find("home/deeper", "../b.h5"), 0);
  EXPECT_EQ(find("home/deeper", "../../elsewhere/d.raw"), EACCES);
  EXPECT_EQ(find("elsewhere", "d.raw"), EACCES);
}

TEST_F(FilePolicyTest, TheFolderOfDatasetsIsTheLimit) {
  FilePolicy policy =
      make(Follow::beneath, true, {.follow = Follow::beneath, .folder = folder_.string(), .mountpoint = {}});
  EXPECT_EQ(read(policy, "../elsewhere/d.raw"), 0);
  EXPECT_EQ(read(policy, "out/d.raw"), 0);
  EXPECT_EQ(read(policy, "/etc/passwd"), EACCES);
  EXPECT_EQ(read(policy, "../../none"), EACCES);
}

TEST_F(FilePolicyTest, WritesTheSourceAndItsLog) {
  for (const Follow follow : {Follow::all, Follow::beneath}) {
    FilePolicy policy = make(follow);
    // .old.h5: the log of an earlier name, as there is no such file; second.h5: a name of the source.
    for (const char* name : {"a.h5", "second.h5", ".a.h5.codecfs-wal", ".old.h5.codecfs-wal", ".second.h5.codecfs-wal"})
      EXPECT_EQ(write(policy, name), 0) << name;
    for (const char* name : {"b.h5", ".b.h5.codecfs-wal", "new", "deeper/c.raw", "in", "..", ".", "out/d.raw",
                             "../elsewhere/.a.h5.codecfs-wal", "deeper/.a.h5.codecfs-wal", ".x", "/etc/passwd"})
      EXPECT_EQ(write(policy, name), EACCES) << name;
    EXPECT_EQ(write(policy, in("home/.a.h5.codecfs-wal")), 0);
  }
  FilePolicy reading = make(Follow::all, false);
  for (const char* name : {"a.h5", ".a.h5.codecfs-wal"}) EXPECT_EQ(write(reading, name), EROFS) << name;
}

TEST_F(FilePolicyTest, TheLogFollowsTheSource) {
  FilePolicy policy = make(Follow::beneath);
  fs::rename(in("home/a.h5"), in("elsewhere/moved.h5"));
  fs::remove(in("home/second.h5"));
  EXPECT_EQ(write(policy, in("elsewhere/.moved.h5.codecfs-wal")), 0);
  EXPECT_EQ(write(policy, in("home/.a.h5.codecfs-wal")), 0);       // to be moved from there
  EXPECT_EQ(write(policy, in("elsewhere/.m.h5.codecfs-wal")), 0);  // there is no m.h5
  EXPECT_EQ(write(policy, in("elsewhere/d.raw")), EACCES);
  EXPECT_TRUE(policy.may_be_log("/any/.moved.h5.codecfs-wal"));
  EXPECT_FALSE(policy.may_be_log("/any/.b.h5.codecfs-wal"));
}

TEST_F(FilePolicyTest, TheLogThatTheAttributeNames) {
  const std::string log = in("elsewhere/.m.h5.codecfs-wal");
  const std::string value = "0123456789abcdef " + log;
  if (::setxattr(in("home/a.h5").c_str(), "user.codecfs.log", value.data(), value.size(), 0) != 0) GTEST_SKIP();
  std::ofstream(in("elsewhere/m.h5")) << "another file";
  FilePolicy policy = make(Follow::beneath);
  EXPECT_EQ(write(policy, log), 0);
  EXPECT_EQ(read(policy, log), 0);
  EXPECT_EQ(read(policy, in("elsewhere/m.h5")), 0);  // to see whether it is its log
  EXPECT_EQ(write(policy, in("home/.m.h5.codecfs-wal")), 0);
  EXPECT_EQ(write(policy, in("elsewhere/m.h5")), EACCES);
  EXPECT_EQ(read(policy, in("elsewhere/d.raw")), EACCES);
}

}  // namespace
}  // namespace codecfs::worker
