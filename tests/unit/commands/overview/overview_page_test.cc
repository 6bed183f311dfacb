// The page of a dataset: that it is bounded, and what it has of things that cannot be read.

#include "commands/overview/overview_page.h"

#include <gtest/gtest.h>

#include "support/memory_source.h"

namespace codecfs::commands::overview {
namespace {

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

class OverviewPageTest : public testing::Test {
 protected:
  std::string page(const PageRules& rules = {}) {
    DatasetInfo info = *read_info(source_, "a/name.h5");
    return *make_page(source_, info, rules, "codecfs 1.2");
  }
  MemorySource source_;
};

TEST_F(OverviewPageTest, HasTheTree) {
  source_.add_group("/g");
  source_.add_group("/g/h");
  source_.add_variable("/g/h/v", text_variable({4, 6}, {2, 3}));
  source_.add_variable("/w", text_variable({4}, {2}));
  source_.add_link("/l", "w");
  const std::string text = page();
  EXPECT_NE(text.find("<h1>name.h5</h1>"), std::string::npos);
  EXPECT_EQ(count_of(text, "<details class=\"group\""), 3U);
  EXPECT_EQ(count_of(text, "<details class=\"var\""), 2U);
  EXPECT_EQ(count_of(text, "<details"), count_of(text, "</details>"));
  EXPECT_EQ(count_of(text, "<div"), count_of(text, "</div>"));
  EXPECT_NE(text.find("l<i> → w</i>"), std::string::npos);
  EXPECT_EQ(count_of(text, "class=\"problems\""), 0U);
}

TEST_F(OverviewPageTest, VariablesBehindTheFirstOnesHaveALineEach) {
  for (int i = 0; i < 30; ++i) source_.add_variable("/v" + std::to_string(i), text_variable({4}, {2}));
  const std::string text = page({.detailed = 11});  // the root is one of the nodes with details
  EXPECT_EQ(count_of(text, "<details class=\"var\""), 11U);
  EXPECT_EQ(count_of(text, "<p class=\"row\""), 19U);
}

TEST_F(OverviewPageTest, IsNotLargerThanAllowed) {
  for (int i = 0; i < 3000; ++i) source_.add_variable("/v" + std::to_string(i), text_variable({4}, {2}));
  const std::string text = page({.detailed = 10, .page_bytes = 60'000});
  EXPECT_LT(text.size(), 64'000U);
  EXPECT_NE(text.find("further objects are not listed"), std::string::npos);
}

TEST_F(OverviewPageTest, PicturesAndAttributesHaveTheirShares) {
  Variable variable = text_variable({40, 40}, {40, 40});
  variable.attributes = {{"note", std::string(1000, 'n')}, {"more", std::string(1000, 'm')}};
  for (const char* const name : {"/a", "/b", "/c"}) {
    source_.add_variable(name, variable);
    std::string noise;
    for (unsigned i = 0, seed = 1; i < 1600; ++i)
      noise += static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    source_.put(name, 0, noise);
  }
  const std::string all = page();
  EXPECT_EQ(count_of(all, "<img"), 3U);
  const std::string text = page({.picture_bytes = 4000, .attribute_bytes = 1500});
  EXPECT_EQ(count_of(text, "<img"), 1U);
  EXPECT_EQ(count_of(text, "not drawn"), 2U);
  EXPECT_GE(count_of(text, "further attribute"), 2U);
}

TEST_F(OverviewPageTest, TellsWhatCannotBeRead) {
  Variable variable = text_variable({4}, {4}, {{.id = 32999, .parameters = {}, .codec = {}, .name = "odd"}});
  source_.add_variable("/v", variable);
  const std::string text = page();
  EXPECT_NE(text.find("1 object cannot be read completely"), std::string::npos);
  EXPECT_GE(count_of(text, "is not installed"), 2U);
}

TEST_F(OverviewPageTest, TimeThatIsOverIsToldAndEndsTheReading) {
  for (const char* const name : {"/a", "/b"}) {
    source_.add_variable(name, text_variable({4}, {2}));
    source_.put(name, 0, "ab");
  }
  const std::string text = page({.time = std::chrono::milliseconds(-1)});
  EXPECT_EQ(count_of(text, "the time for reading was over"), 2U);
  EXPECT_LE(source_.reads, 2);
}

}  // namespace
}  // namespace codecfs::commands::overview
