// Following the log.

#include "base/recent_log.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/log.h"

namespace codecfs::log {
namespace {

TEST(RecentLog, ContinuesWhereAReaderStopped) {
  to_function([](Level, std::string_view) {});
  info("before");
  const RecentMessages before = recent_messages();
  EXPECT_TRUE(before.text.ends_with(" info: before\n"));
  EXPECT_EQ(recent_messages(before.end).text, "");
  info("one");
  warning("two");
  const RecentMessages later = recent_messages(before.end);
  EXPECT_EQ(std::ranges::count(later.text, '\n'), 2);
  EXPECT_EQ(later.end, before.end + 2);
  EXPECT_EQ(before.text + later.text, recent());
}

TEST(RecentLog, DropsTheOldestHalf) {
  to_function([](Level, std::string_view) {});
  const uint64_t begin = recent_messages().end;
  for (size_t i = 0; i < 3 * kRecentMessages; ++i) info("message {}", i);
  const RecentMessages kept = recent_messages();
  const auto lines = static_cast<size_t>(std::ranges::count(kept.text, '\n'));
  EXPECT_EQ(kept.end, begin + 3 * kRecentMessages);
  EXPECT_EQ(kept.end - kept.first, lines);
  EXPECT_GE(lines, kRecentMessages / 2);
  EXPECT_LE(lines, kRecentMessages);
  EXPECT_EQ(recent_messages(begin).text, kept.text) << "what was dropped is skipped";
  EXPECT_EQ(recent_messages(UINT64_MAX).text, "");
}

}  // namespace
}  // namespace codecfs::log
