#include "fs/chunks/failure_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/log.h"

namespace codecfs::fs {
namespace {

using namespace std::chrono_literals;

class FailureLogTest : public testing::Test {
 protected:
  FailureLogTest() {
    log::to_function([this](log::Level, std::string_view text) { lines_.emplace_back(text); });
  }
  ~FailureLogTest() override { log::to_stderr(); }

  std::vector<std::string> lines_;
  const FailureLog::Clock::time_point now_{};
};

TEST_F(FailureLogTest, ManyOfAKindBecomeACount) {
  {
    FailureLog failures;
    for (int i = 0; i < 1000; ++i) failures.add({ENOSPC, "chunk " + std::to_string(i)}, now_ + i * 1ms);
    EXPECT_EQ(lines_.size(), FailureLog::kMaxLogged);
    EXPECT_EQ(lines_.back(), "chunk 4");
  }
  ASSERT_EQ(lines_.size(), FailureLog::kMaxLogged + 1);
  EXPECT_EQ(lines_.back(), "995 more attempts to store chunks failed; the last: chunk 999");
}

TEST_F(FailureLogTest, AnotherKindAndALaterOneAreLogged) {
  FailureLog failures;
  for (int i = 0; i < 7; ++i) failures.add({ENOSPC, "full"}, now_);
  failures.add({EIO, "broken"}, now_);
  EXPECT_EQ(lines_[5], "2 more attempts to store chunks failed; the last: full");
  EXPECT_EQ(lines_[6], "broken");
  failures.add({EIO, "broken again"}, now_ + FailureLog::kWhile);
  EXPECT_EQ(lines_.back(), "broken again");
  EXPECT_EQ(lines_.size(), 8U);
}

TEST_F(FailureLogTest, AFewAreAllLogged) {
  {
    FailureLog failures;
    for (int i = 0; i < 6; ++i) failures.add({EIO, "chunk " + std::to_string(i)}, now_);
  }
  ASSERT_EQ(lines_.size(), 6U);
  EXPECT_EQ(lines_.back(), "chunk 5");
}

}  // namespace
}  // namespace codecfs::fs
