// Texts of files in a page.

#include "commands/overview/html.h"

#include <gtest/gtest.h>

namespace codecfs::commands::overview {
namespace {

TEST(OverviewHtml, MarkupIsText) {
  EXPECT_EQ(escaped("<b a=\"1\" c='2'>&amp;"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(escaped("grün"), "grün");
}

TEST(OverviewHtml, ControlCharactersAreNotThere) {
  const std::string text = escaped(std::string("a\0b\x1b[1m\x7f\xff\n<", 11));
  for (const char bad : {'\0', '\x1b', '\x7f', '\n', '<'}) EXPECT_EQ(text.find(bad), std::string::npos);
}

TEST(OverviewHtml, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(escaped_part("abc", 3), "abc");
  EXPECT_EQ(escaped_part("abcdef", 3), "abc… (6 bytes)");
  EXPECT_EQ(escaped_part("aüüü", 2), "a… (7 bytes)");
  EXPECT_EQ(escaped_part("<<<<", 2), "&lt;&lt;… (4 bytes)");
}

}  // namespace
}  // namespace codecfs::commands::overview
