// Calls that may not return: what the others give, and that nothing waits for those.

#include "mount/limited_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace codecfs::mount {
namespace {

using std::chrono::seconds;

TEST(LimitedCalls, GiveTheirTextsInOrder) {
  const std::string much(1 << 20, 'x');  // more than a pipe holds
  const auto texts =
      call_with_limit({[] { return "one"; }, [&] { return much; }, [] { return std::string(); }}, seconds(60));
  ASSERT_EQ(texts.size(), 3);
  EXPECT_EQ(texts[0].value(), "one");
  EXPECT_TRUE(texts[1].value() == much);
  EXPECT_EQ(texts[2].value(), "");
  EXPECT_TRUE(call_with_limit({}, seconds(60)).empty());
}

TEST(LimitedCalls, OneThatDoesNotReturnDoesNotHoldUpTheOthers) {
  const auto began = std::chrono::steady_clock::now();
  const auto texts = call_with_limit({[] {
                                        ::sleep(600);
                                        return "late";
                                      },
                                      [] { return "there"; }},
                                     seconds(2));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
  ASSERT_FALSE(texts[0]);
  EXPECT_EQ(texts[0].error().code, ETIMEDOUT);
  EXPECT_EQ(texts[1].value(), "there");
  while (::waitpid(-1, nullptr, 0) > 0) continue;  // the one that was killed
}

TEST(LimitedCalls, AProcessThatEndsIsAnError) {
  const auto texts =
      call_with_limit({[]() -> std::string { std::_Exit(0); }, []() -> std::string { throw std::bad_alloc(); },
                       []() -> std::string { std::abort(); }},
                      seconds(60));
  for (const auto& text : texts) {
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, EIO);
  }
}

// A pipe that a child keeps open would keep its reader waiting.
TEST(LimitedCalls, AChildHasNoDescriptorOfItsParent) {
  const int copy = ::fcntl(1, F_DUPFD, 20);
  const auto texts =
      call_with_limit({[&]() -> std::string { return ::fcntl(copy, F_GETFD) < 0 ? "none" : "open"; }}, seconds(60));
  ::close(copy);
  EXPECT_EQ(texts[0].value(), "none");
}

}  // namespace
}  // namespace codecfs::mount
