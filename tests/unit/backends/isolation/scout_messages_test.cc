// Requests and answers between a scout and its parent, and what is done with malformed ones.

#include "backends/isolation/scout_messages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "base/fd_passing.h"

namespace codecfs::hdf5 {
namespace {

class ScoutMessages : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    parent_ = UniqueFd(ends[0]);
    scout_ = UniqueFd(ends[1]);
  }
  static std::string_view text_of(const Buffer& buffer) {
    return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
  }
  Result<ScoutGift> answered(const Result<ScoutGift>& answer) {
    EXPECT_TRUE(send_answer(scout_.get(), answer));
    auto received = receive_answer(parent_.get());
    EXPECT_TRUE(received);
    return received ? *std::move(received) : fail(EPIPE, "none");
  }
  static std::string_view as_bytes(const auto& head) { return {reinterpret_cast<const char*>(&head), sizeof head}; }

  UniqueFd parent_;
  UniqueFd scout_;
};

TEST_F(ScoutMessages, ARequestArrivesAsItWasSent) {
  ScoutRequest head;
  head.task = ScoutTask::chunk;
  head.address = UINT64_MAX;
  head.number = 7;
  head.netcdf = 1;
  head.strict = 1;
  const std::string text("path\0folder", 11);
  const std::vector<uint64_t> addresses = {1, uint64_t{1} << 63, 3};
  ASSERT_TRUE(send_request(parent_.get(), head, text, addresses));
  ASSERT_TRUE(send_request(parent_.get(), ScoutRequest{.task = ScoutTask::places}, {}, {}));
  const auto received = receive_request(scout_.get());
  ASSERT_TRUE(received);
  EXPECT_EQ(received->head.task, ScoutTask::chunk);
  EXPECT_EQ(received->head.address, UINT64_MAX);
  EXPECT_EQ(received->head.number, 7);
  EXPECT_EQ(received->head.netcdf, 1);
  EXPECT_EQ(received->head.for_writing, 0);
  EXPECT_EQ(received->head.strict, 1);
  EXPECT_EQ(received->text, text);
  EXPECT_EQ(received->addresses, addresses);
  const auto second = receive_request(scout_.get());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->head.task, ScoutTask::places);
  EXPECT_EQ(second->text, "");
  EXPECT_TRUE(second->addresses.empty());
}

TEST_F(ScoutMessages, ARequestIsLimited) {
  std::string text(kLongestMessage - sizeof(ScoutRequest), 'x');
  ASSERT_TRUE(send_request(parent_.get(), {}, text, {}));
  EXPECT_EQ(receive_request(scout_.get())->text, text);
  text += 'x';
  EXPECT_FALSE(send_request(parent_.get(), {}, text, {}));
  EXPECT_FALSE(send_request(parent_.get(), {}, {}, std::vector<uint64_t>(kLongestMessage / 8)));
}

TEST_F(ScoutMessages, MalformedRequestsAreNone) {
  ASSERT_TRUE(send_datagram(parent_.get(), "short"));
  EXPECT_FALSE(receive_request(scout_.get()));
  ScoutRequest head;
  head.text = 5;
  ASSERT_TRUE(send_datagram(parent_.get(), std::string(as_bytes(head)) + "text"));
  EXPECT_FALSE(receive_request(scout_.get())) << "the text is longer than the request";
  head.text = 1;
  ASSERT_TRUE(send_datagram(parent_.get(), std::string(as_bytes(head)) + "t1234567"));
  const auto cut = receive_request(scout_.get());
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->addresses.empty()) << "not a whole address";
}

TEST_F(ScoutMessages, TheEndOfTheOtherProcessIsNone) {
  parent_.reset();
  EXPECT_FALSE(receive_request(scout_.get()));
  EXPECT_FALSE(send_answer(scout_.get(), ScoutGift()));
  EXPECT_FALSE(send_answer(scout_.get(), fail(EIO, "damaged")));
}

TEST_F(ScoutMessages, TheEndOfTheScoutIsNone) {
  scout_.reset();
  EXPECT_FALSE(send_request(parent_.get(), {}, {}, {}));
  EXPECT_FALSE(receive_answer(parent_.get()));
}

TEST_F(ScoutMessages, SuccessWithoutAResult) {
  const auto answer = answered(ScoutGift());
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->has_value());
}

TEST_F(ScoutMessages, AResultOfAnySizeArrives) {
  for (const size_t size : {size_t{0}, size_t{1}, kLongestMessage, size_t{3'000'001}}) {
    std::string text(size, 'a');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
    const auto answer = answered(ScoutGift(*Buffer::copy_of(std::as_bytes(std::span(text)))));
    ASSERT_TRUE(answer) << answer.error().reason;
    ASSERT_TRUE(answer->has_value()) << size;
    EXPECT_TRUE(text_of(**answer) == text) << size;
  }
}

TEST_F(ScoutMessages, AnErrorArrives) {
  const auto answer = answered(fail(ENOENT, "chunk 3 of 100% is not stored"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ENOENT);
  EXPECT_EQ(answer.error().reason, "chunk 3 of 100% is not stored");
}

TEST_F(ScoutMessages, ALongReasonIsCut) {
  const auto answer = answered(fail(EIO, "{}", std::string(2 * kLongestMessage, 'r')));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EIO);
  EXPECT_EQ(answer.error().reason, std::string(kLongestMessage / 2, 'r'));
}

// A scout whose memory is damaged may send anything.
TEST_F(ScoutMessages, AnAnswerThatPromisesMoreThanItHasIsAnError) {
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "12345", 5), 5);
  ASSERT_TRUE(send_datagram(scout_.get(), as_bytes(ScoutAnswer{.code = 0, .bytes = 6}), std::array{memory.get()}));
  const auto answer = receive_answer(parent_.get());
  ASSERT_TRUE(answer);
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, EIO);
  EXPECT_EQ(answer->error().reason, "an answer of 6 bytes ends after 5");

  ASSERT_TRUE(
      send_datagram(scout_.get(), as_bytes(ScoutAnswer{.code = 0, .bytes = UINT64_MAX}), std::array{memory.get()}));
  const auto huge = receive_answer(parent_.get());
  ASSERT_TRUE(huge);
  EXPECT_FALSE(*huge);
}

TEST_F(ScoutMessages, AShortAnswerIsNone) {
  ASSERT_TRUE(send_datagram(scout_.get(), "short"));
  EXPECT_FALSE(receive_answer(parent_.get()));
}

}  // namespace
}  // namespace codecfs::hdf5
