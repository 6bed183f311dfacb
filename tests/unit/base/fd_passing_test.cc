#include "base/fd_passing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace codecfs {
namespace {

class FdPassing : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours_ = UniqueFd(ends[0]);
    theirs_ = UniqueFd(ends[1]);
  }
  static ino_t inode_of(int fd) {
    struct stat status{};
    EXPECT_EQ(::fstat(fd, &status), 0);
    return status.st_ino;
  }

  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(FdPassing, DatagramsStaySeparate) {
  ASSERT_TRUE(send_datagram(ours_.get(), "one"));
  ASSERT_TRUE(send_datagram(ours_.get(), std::string_view("t\0wo", 4)));
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).bytes, "one");
  const Datagram second = receive_datagram(theirs_.get(), 100);
  EXPECT_EQ(second.bytes, std::string("t\0wo", 4));
  EXPECT_TRUE(second.fds.empty());
}

TEST_F(FdPassing, FilesArriveInOrderAndAreClosedOnExec) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const UniqueFd reading(pipe[0]);
  const UniqueFd file(::open("/proc/self/stat", O_RDONLY));
  ASSERT_TRUE(send_datagram(ours_.get(), "files", std::array{reading.get(), file.get()}));
  ASSERT_TRUE(send_datagram(ours_.get(), "file", std::array{pipe[1]}));
  ::close(pipe[1]);
  const Datagram two = receive_datagram(theirs_.get(), 100);
  ASSERT_EQ(two.fds.size(), 2);
  EXPECT_EQ(inode_of(two.fds[0].get()), inode_of(reading.get()));
  EXPECT_EQ(inode_of(two.fds[1].get()), inode_of(file.get()));
  for (const UniqueFd& fd : two.fds) EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).fds.size(), 1);
}

TEST_F(FdPassing, AClosedEndIsNoDatagram) {
  ASSERT_TRUE(send_datagram(ours_.get(), "last"));
  ours_.reset();
  EXPECT_FALSE(send_datagram(theirs_.get(), "x")) << "and no SIGPIPE";
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).bytes, "last");
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).bytes, "");
}

// The kernel reports ECONNRESET first if the other end was closed before it received everything.
TEST_F(FdPassing, WhatWasSentBeforeTheEndArrivesIfTheSenderDidNotReceiveAll) {
  ASSERT_TRUE(send_datagram(ours_.get(), "one"));
  ASSERT_TRUE(send_datagram(ours_.get(), "two", std::array{0}));
  ASSERT_TRUE(send_datagram(theirs_.get(), "never received"));
  ours_.reset();
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).bytes, "one");
  const Datagram second = receive_datagram(theirs_.get(), 100);
  EXPECT_EQ(second.bytes, "two");
  EXPECT_EQ(second.fds.size(), 1);
  EXPECT_EQ(receive_datagram(theirs_.get(), 100).bytes, "");
}

}  // namespace
}  // namespace codecfs
