// What the daemon does for the process of libhdf5. The caller is this process.

#include "backends/worker/file_broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace codecfs::worker {
namespace {

namespace fs = std::filesystem;
using Kind = FileCall::Kind;

class FileBrokerTest : public testing::Test {
 protected:
  FileBrokerTest() {
    std::string pattern = (fs::canonical(fs::temp_directory_path()) / "codecfs_broker_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(folder_ / "a.h5") << "the source";
    std::ofstream(folder_ / "b.h5") << "another";
    broker_ = std::make_unique<FileBroker>(
        FileRules{.source = in("a.h5"),
                  .may_write = true,
                  .working_directory = folder_.string(),
                  .references = {.follow = Follow::beneath, .folder = {}, .mountpoint = {}},
                  .libraries = {}},
        UniqueFd(::open(in("a.h5").c_str(), O_RDONLY | O_CLOEXEC)));
  }
  ~FileBrokerTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string in(const std::string& name) const { return (folder_ / name).string(); }
  FileAnswer execute(FileCall call) { return broker_->execute(calls_, call); }
  FileAnswer open(const std::string& path, int flags) {
    return execute({.kind = Kind::open, .path = path, .flags = static_cast<uint32_t>(flags), .mode = 0600});
  }
  /// A call on a descriptor.
  FileAnswer on(int fd, FileCall call) {
    call.at_number = fd;
    call.at = calls_.file_of(fd);
    return execute(std::move(call));
  }
  FileAnswer lock(const UniqueFd& fd, int operation) {
    return on(fd.get(), {.kind = Kind::lock, .mode = static_cast<uint32_t>(operation)});
  }

  fs::path folder_;
  std::unique_ptr<FileBroker> broker_;
  FileCalls calls_{UniqueFd(), *FileCallEnds::open()};
};

TEST_F(FileBrokerTest, OpensForReadingOnly) {
  const FileAnswer opened = open("b.h5", O_RDONLY);
  ASSERT_TRUE(opened.fd);
  EXPECT_EQ(::fcntl(opened.fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(open("b.h5", O_RDWR).error, EACCES);
  EXPECT_EQ(open("b.h5", O_WRONLY).error, EACCES);
  EXPECT_EQ(open("b.h5", O_RDONLY | O_TRUNC).error, EACCES);
  EXPECT_EQ(open("new", O_RDONLY | O_CREAT).error, EACCES);
  EXPECT_EQ(open("b.h5", O_RDONLY | O_DIRECTORY).error, ENOTDIR);
  EXPECT_EQ(open("a.h5", O_RDWR | O_TRUNC).error, EACCES);
  EXPECT_EQ(fs::file_size(in("a.h5")), 10U);
  EXPECT_EQ(open(fmt::format("/proc/self/fd/{}", opened.fd.get()), O_RDONLY).error, EACCES);
  EXPECT_TRUE(open(fmt::format("/proc/self/fd/{}", opened.fd.get()), O_PATH).is_continued);
  EXPECT_EQ(open("b.h5", O_PATH).error, EACCES);
  EXPECT_FALSE(broker_->is_source(opened.fd));
  EXPECT_TRUE(broker_->is_source(open("a.h5", O_RDONLY).fd));
}

TEST_F(FileBrokerTest, MakesRenamesAndRemovesTheLog) {
  const FileAnswer log = open(".a.h5.codecfs-wal", O_RDWR | O_CREAT | O_EXCL);
  ASSERT_TRUE(log.fd);
  EXPECT_EQ(open(".a.h5.codecfs-wal", O_RDWR | O_CREAT | O_EXCL).error, EEXIST);
  EXPECT_EQ(on(log.fd.get(), {.kind = Kind::set_mode, .mode = 0640}).error, 0);
  EXPECT_EQ(on(log.fd.get(), {.kind = Kind::set_mode, .mode = 04755}).error, EACCES);
  EXPECT_EQ(on(log.fd.get(), {.kind = Kind::set_owner, .user = UINT32_MAX, .group = 12345}).error, EPERM);
  EXPECT_EQ(on(log.fd.get(), {.kind = Kind::set_owner, .user = ::geteuid(), .group = UINT32_MAX}).error, 0);
  struct stat status{};
  ASSERT_EQ(::stat(in(".a.h5.codecfs-wal").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  const FileAnswer source = open("a.h5", O_RDWR);
  EXPECT_EQ(on(source.fd.get(), {.kind = Kind::set_mode, .mode = 0600}).error, EACCES);

  EXPECT_EQ(execute({.kind = Kind::rename, .path = "b.h5", .to_path = ".a.h5.codecfs-wal"}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::rename, .path = ".a.h5.codecfs-wal", .to_path = "a.h5"}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::rename, .path = "a.h5", .to_path = ".a.h5.codecfs-wal"}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::rename, .path = ".a.h5.codecfs-wal", .to_path = ".z.h5.codecfs-wal"}).error, 0);
  EXPECT_EQ(execute({.kind = Kind::unlink, .path = "a.h5"}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::unlink, .path = "b.h5"}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::unlink, .path = ".z.h5.codecfs-wal", .flags = AT_REMOVEDIR}).error, EACCES);
  EXPECT_EQ(execute({.kind = Kind::unlink, .path = ".z.h5.codecfs-wal"}).error, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(FileBrokerTest, Attributes) {
  const FileAnswer source = open("a.h5", O_RDONLY);
  const FileAnswer other = open("b.h5", O_RDONLY);
  const auto set = [&](const FileAnswer& file, const char* name, std::string value) {
    return on(file.fd.get(), {.kind = Kind::set_attribute, .path = name, .value = std::move(value)}).error;
  };
  if (set(source, "user.codecfs.free", "x") == EOPNOTSUPP) GTEST_SKIP();
  EXPECT_EQ(set(source, "user.other", "x"), EACCES);
  EXPECT_EQ(set(source, "security.capability", "x"), EACCES);
  EXPECT_EQ(set(other, "user.codecfs.free", "x"), EACCES);
  EXPECT_EQ(set(source, "user.codecfs.log", "0123456789abcdef /any/.a.h5.codecfs-wal"), 0);
  EXPECT_EQ(set(source, "user.codecfs.log", "0123456789abcdef /any/.b.h5.codecfs-wal"), EACCES);
  EXPECT_EQ(set(source, "user.codecfs.log", ""), EACCES);
  const auto get = [&](const char* name, uint64_t size) {
    return on(source.fd.get(), {.kind = Kind::get_attribute, .path = name, .size = size});
  };
  EXPECT_EQ(get("user.codecfs.free", 10).bytes, "x");
  EXPECT_EQ(get("user.codecfs.free", 0).value, 1);
  EXPECT_EQ(get("user.codecfs.log", 3).error, ERANGE);
  EXPECT_EQ(get("user.codecfs.none", 10).error, ENODATA);
  EXPECT_EQ(get("security.selinux", 10).error, ENODATA);
  EXPECT_EQ(on(source.fd.get(), {.kind = Kind::remove_attribute, .path = "user.codecfs.free"}).error, 0);
}

// The caller closes its descriptors without a word, as a killed process does.
TEST_F(FileBrokerTest, KeepsTheLock) {
  const auto is_locked_for_others = [&] {
    const UniqueFd fd(::open(in("a.h5").c_str(), O_RDONLY | O_CLOEXEC));
    return ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0;
  };
  for (int process = 0; process < 2; ++process) {
    const UniqueFd reading = std::move(open("a.h5", O_RDONLY).fd);
    const bool is_first = process == 0;
    EXPECT_EQ(lock(reading, LOCK_SH | LOCK_NB).is_continued, is_first);
    EXPECT_EQ(lock(reading, LOCK_UN).error, 0);
    const UniqueFd writing = std::move(open("a.h5", O_RDWR).fd);
    EXPECT_EQ(lock(writing, LOCK_EX | LOCK_NB).error, 0);
    EXPECT_TRUE(broker_->holds_lock());
    EXPECT_TRUE(is_locked_for_others());
  }
  EXPECT_TRUE(is_locked_for_others());
  const UniqueFd writing = std::move(open("a.h5", O_RDWR).fd);
  EXPECT_EQ(lock(writing, LOCK_UN).error, 0);
  EXPECT_FALSE(broker_->holds_lock());
  EXPECT_FALSE(is_locked_for_others());
}

TEST_F(FileBrokerTest, ALockOfAnotherProgram) {
  const UniqueFd other(::open(in("a.h5").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_SH), 0);
  const UniqueFd writing = std::move(open("a.h5", O_RDWR).fd);
  EXPECT_EQ(lock(writing, LOCK_EX | LOCK_NB).error, EWOULDBLOCK);
  EXPECT_FALSE(broker_->holds_lock());
}

TEST_F(FileBrokerTest, RefusalsOfAThread) {
  EXPECT_EQ(execute({.kind = Kind::open, .thread = 7, .path = "/etc/passwd"}).error, EACCES);
  EXPECT_EQ(broker_->take_refusal(8), "");
  const std::string reason = broker_->take_refusal(7);
  EXPECT_NE(reason.find("/etc/passwd"), std::string::npos);
  EXPECT_NE(reason.find("-o follow=all"), std::string::npos);
  EXPECT_EQ(broker_->take_refusal(7), "");
  EXPECT_EQ(execute({.kind = Kind::open, .thread = 7, .path = "none"}).error, ENOENT);
  EXPECT_EQ(broker_->take_refusal(7), "");
}

TEST_F(FileBrokerTest, Questions) {
  const auto ask = [&](Kind kind, const char* path, uint32_t mode = 0) {
    return execute({.kind = kind, .path = path, .mode = mode, .size = 4096});
  };
  const FileAnswer described = ask(Kind::status, "b.h5");
  struct stat status{};
  ASSERT_EQ(described.bytes.size(), sizeof status);
  std::memcpy(&status, described.bytes.data(), sizeof status);
  EXPECT_EQ(status.st_size, 7);
  EXPECT_EQ(ask(Kind::status, "none").error, ENOENT);
  EXPECT_EQ(ask(Kind::status, "/etc/passwd").error, EACCES);
  EXPECT_EQ(ask(Kind::access, "b.h5", R_OK).error, 0);
  EXPECT_EQ(ask(Kind::access, "b.h5", X_OK).error, EACCES);
  fs::create_symlink("b.h5", in("link"));
  EXPECT_EQ(ask(Kind::read_link, "link").bytes, "b.h5");
  EXPECT_EQ(ask(Kind::read_link, "b.h5").error, EINVAL);
  const UniqueFd file(::open(in("b.h5").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ask(Kind::read_link, fmt::format("/proc/self/fd/{}", file.get()).c_str()).bytes, in("b.h5"));
}

}  // namespace
}  // namespace codecfs::worker
