// Which notifications are sent to the kernel, and which callers wait, over a session whose messages are recorded.

#include "fs/kernel/kernel_notices.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <set>

namespace codecfs::fs {
namespace {

/// A session that is told to be the kernel's, with the notifications that were sent.
class RecordedSession {
 public:
  RecordedSession() {
    recorded_ = this;
    char name[] = "test";
    char* arguments[] = {name, nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, arguments);
    const fuse_lowlevel_ops operations{};
    session_ = fuse_session_new(&args, &operations, sizeof operations, nullptr);
    fuse_opt_free_args(&args);
    const fuse_custom_io io{
        .writev = &record, .read = &read_nothing, .splice_receive = nullptr, .splice_send = nullptr};
    const int error = fuse_session_custom_io(session_, &io, open("/dev/null", O_RDWR | O_CLOEXEC));
    is_recorded_ = error == 0;
    EXPECT_TRUE(is_recorded_ || error == -EOPNOTSUPP);
    // Notifications need the version of the protocol.
    struct {
      fuse_in_header header{};
      fuse_init_in init{};
    } message;
    message.header.len = sizeof message;
    message.header.opcode = FUSE_INIT;
    message.header.unique = 1;
    message.init.major = FUSE_KERNEL_VERSION;
    message.init.minor = 31;
    message.init.max_readahead = 4096;
    const fuse_buf buffer{.size = sizeof message, .flags = {}, .mem = &message, .fd = -1, .pos = 0};
    fuse_session_process_buf(session_, &buffer);
  }
  ~RecordedSession() { fuse_session_destroy(session_); }
  RecordedSession(const RecordedSession&) = delete;
  RecordedSession& operator=(const RecordedSession&) = delete;

  [[nodiscard]] fuse_session* get() const { return session_; }
  /// Not where libfuse was built without this.
  [[nodiscard]] bool is_recorded() const { return is_recorded_; }
  std::vector<std::string> sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

  /// The next notifications that the kernel answers with ENOENT.
  std::atomic<int> unknown = 0;
  /// Set before the first notification: called for each.
  std::function<void(const std::string&)> before_send;

 private:
  static ssize_t read_nothing(int, void*, size_t, void*) { return 0; }
  static ssize_t record(int, iovec* parts, int count, void*) {
    std::string message;
    for (int i = 0; i < count; ++i) message.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    if (recorded_->unknown > 0) {
      --recorded_->unknown;
      errno = ENOENT;
      return -1;
    }
    recorded_->add(message);
    return static_cast<ssize_t>(message.size());
  }
  void add(const std::string& message) {
    fuse_out_header header;
    std::memcpy(&header, message.data(), sizeof header);
    if (header.unique != 0) return;  // the reply to INIT
    std::string text;
    const char* body = message.data() + sizeof header;
    if (header.error == FUSE_NOTIFY_INVAL_INODE) {
      fuse_notify_inval_inode_out notice;
      std::memcpy(&notice, body, sizeof notice);
      text = notice.off < 0 ? fmt::format("attributes of {}", notice.ino)
                            : fmt::format("{}+{} of {}", notice.off, notice.len, notice.ino);
    } else if (header.error == FUSE_NOTIFY_INVAL_ENTRY) {
      fuse_notify_inval_entry_out notice;
      std::memcpy(&notice, body, sizeof notice);
      text = fmt::format("{} in {}", std::string_view(body + sizeof notice, notice.namelen), notice.parent);
    }
    if (before_send) before_send(text);
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(text));
  }

  static inline RecordedSession* recorded_ = nullptr;
  fuse_session* session_ = nullptr;
  bool is_recorded_ = false;
  std::mutex mutex_;
  std::vector<std::string> sent_;  // guarded by mutex_
};

using Notices = std::vector<std::string>;

class KernelNoticesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!session_.is_recorded()) GTEST_SKIP() << "this libfuse sends to the kernel only";
  }
  KernelNotices& notices() {
    if (!std::exchange(started_, true)) {
      EXPECT_TRUE(notices_.start(session_.get(), 4));
    }
    return notices_;
  }
  RecordedSession session_;

 private:
  bool started_ = false;
  KernelNotices notices_;
};

TEST_F(KernelNoticesTest, OnlyInodesThatTheKernelWasGivenAreInvalidated) {
  constexpr Ino kKnown = Ino{5} << kLocalBits | 16;
  constexpr Ino kOther = Ino{6} << kLocalBits | 16;
  notices().note_returned(kKnown);
  notices().content_changed(kOther, true);
  notices().part_changed(kOther, 1, 2, true);
  notices().content_changed(kKnown, false);
  notices().part_changed(kKnown, 10, 20, true);
  EXPECT_EQ(session_.sent(), (Notices{fmt::format("0+0 of {}", kKnown), fmt::format("10+20 of {}", kKnown)}));
}

TEST_F(KernelNoticesTest, TheRootIsKnownFromTheStart) {
  notices().content_changed(kRootIno, true);
  EXPECT_EQ(session_.sent(), (Notices{"0+0 of 1"}));
}

TEST_F(KernelNoticesTest, OfARangeOnlyKnownInodesAreInvalidated) {
  constexpr Ino kFirst = Ino{5} << kLocalBits;
  notices().note_returned(kFirst + 5000);
  notices().contents_changed(kFirst, uint64_t{1} << 30, true);
  const Notices sent = session_.sent();
  EXPECT_LE(sent.size(), 1024) << "the block of inodes";
  EXPECT_NE(std::ranges::find(sent, fmt::format("0+0 of {}", kFirst + 5000)), sent.end());
  notices().attributes_changed(kFirst + 5000, 1, true);
  EXPECT_EQ(session_.sent().back(), fmt::format("attributes of {}", kFirst + 5000));
}

TEST_F(KernelNoticesTest, NamesAreSentWithoutKnowingTheirInodes) {
  notices().name_changed(7, "waited for", true);
  notices().names_changed(7, {"a", "b"});
  notices().await_all();
  const Notices sent = session_.sent();
  EXPECT_EQ(std::set<std::string>(sent.begin(), sent.end()),
            (std::set<std::string>{"waited for in 7", "a in 7", "b in 7"}));
}

TEST_F(KernelNoticesTest, AWaitingCallerReturnsAfterAllThatWasQueuedBefore) {
  constexpr Ino kFirst = Ino{5} << kLocalBits | 16;
  for (Ino ino = kFirst; ino < kFirst + 100; ++ino) notices().note_returned(ino);
  for (Ino ino = kFirst; ino < kFirst + 99; ++ino) notices().content_changed(ino, false);
  notices().content_changed(Ino{9} << kLocalBits | 16, true);  // unknown: nothing is sent, but it waits for the others
  EXPECT_EQ(session_.sent().size(), 99);
}

// The kernel may hold the inode of the request until it is answered.
TEST_F(KernelNoticesTest, ARequestDoesNotWaitForANoticeAboutItsOwnInode) {
  std::latch sending(1);
  std::latch answered(1);
  session_.before_send = [&](const std::string& notice) {
    if (notice != "0+0 of 1") return;
    sending.count_down();
    answered.wait();
  };
  notices().note_returned(2);
  notices().content_changed(kRootIno, false);
  sending.wait();
  {
    const KernelNotices::Request request(notices(), kRootIno);
    notices().content_changed(2, true);
  }
  EXPECT_TRUE(session_.sent().empty()) << "it returned while the kernel held the notice";
  answered.count_down();
  notices().await_all();
  EXPECT_EQ(session_.sent().size(), 2);
}

TEST_F(KernelNoticesTest, AReplyIsOutdatedAfterAnyNotice) {
  constexpr Ino kOther = Ino{6} << kLocalBits | 16;
  const KernelNotices::Request request(notices(), kRootIno);
  EXPECT_FALSE(notices().is_outdated());
  {
    const KernelNotices::Request inner(notices(), 2);
    notices().content_changed(kOther, false);  // unknown: nothing is sent
    EXPECT_TRUE(notices().is_outdated());
  }
  EXPECT_TRUE(notices().is_outdated());
  const KernelNotices::Request next(notices(), kRootIno);
  EXPECT_FALSE(notices().is_outdated());
}

// The reply may be on its way to the client that the kernel will ask.
TEST_F(KernelNoticesTest, OfAnInodeThatWasJustReturnedTheKernelIsToldAgain) {
  constexpr Ino kKnown = Ino{5} << kLocalBits | 16;
  notices().note_returned(kKnown);
  session_.unknown = 3;
  notices().content_changed(kKnown, true);
  EXPECT_EQ(session_.unknown, 0);
  session_.unknown = 3;
  notices().attributes_changed(kKnown, 1, true);
  EXPECT_EQ(session_.sent(), (Notices{fmt::format("0+0 of {}", kKnown), fmt::format("attributes of {}", kKnown)}));
}

TEST_F(KernelNoticesTest, OfAnInodeThatWasForgottenTheKernelIsToldOnce) {
  constexpr Ino kKnown = Ino{5} << kLocalBits | 16;
  notices().note_returned(kKnown);
  notices().note_forgotten(kKnown);
  session_.unknown = 2;
  notices().content_changed(kKnown, true);
  EXPECT_EQ(session_.unknown, 1);
  EXPECT_TRUE(session_.sent().empty());
}

TEST_F(KernelNoticesTest, NothingIsSentAfterTheStop) {
  notices().stop();
  notices().content_changed(kRootIno, true);
  notices().name_changed(kRootIno, "a", true);
  EXPECT_TRUE(session_.sent().empty());
}

}  // namespace
}  // namespace codecfs::fs
