// Every name has exactly one file name, and the conversion is reversible.

#include "backends/api/names.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"

namespace codecfs {
namespace {

TEST(Names, Vectors) {
  const std::pair<std::string, std::string> cases[] = {
      {"temperature", "temperature"},
      {"naïve 温度", "naïve 温度"},
      {"", "%~"},
      {".", "%2E"},
      {"..", "%2E."},
      {"...", "..."},
      {".zarray", "%2Ezarray"},
      {".codecfs", "%2Ecodecfs"},
      {"zarr.json", "%7Aarr.json"},
      {".zother", ".zother"},
      {"a/b", "a%2Fb"},
      {std::string("a\0b", 3), "a%00b"},
      {"a\xFFz", "a%FFz"},
      {"100%", "100%"},
      {"5%ab", "5%ab"},
      {"%41", "%41"},
      {"%%41", "%%41"},
      {"%2541", "%2541"},
      {"per%20cent", "per%20cent"},
      {"a%2Fb", "a%252Fb"},
      {"a%252Fb", "a%25252Fb"},
      {"a%2fb", "a%2fb"},
      {"a%FFz", "a%25FFz"},
      {"a%41%FF", "a%41%FF"},
      {"a%41\xFF", "a%2541%FF"},
      {"a%41/", "a%2541%2F"},
      {"%2Ezarray", "%252Ezarray"},
      {"%2Ezother", "%2Ezother"},
      {"%/", "%%2F"},
      {"%~", "%25~"},
      {"%~x", "%~x"},
      {"50% of", "50% of"},
      {"line\nbreak", "line\nbreak"},
  };
  for (const auto& [name, file_name] : cases) {
    EXPECT_EQ(escape_name(name), file_name);
    EXPECT_EQ(unescape_name(file_name), name);
    EXPECT_FALSE(is_cut_name(file_name));
  }
}

TEST(Names, OnlyOurSpellingIsAccepted) {
  for (const char* bad : {"", ".", "..", "a/b", ".zarray", "a\xFF"}) EXPECT_FALSE(unescape_name(bad)) << bad;
  for (const char* plain : {"%61", "%2e", "%2Etmp", "a%ff", "%2E%2E", "%252", "%41%41", "a%41%FF", "a%61%2F"})
    EXPECT_EQ(unescape_name(plain), plain);
}

TEST(Names, ASuffixIsNeverCut) {
  EXPECT_EQ(with_suffix("temperature", ".npy"), "temperature.npy");
  EXPECT_EQ(with_suffix("%~", ""), "%~");
  EXPECT_EQ(with_suffix(std::string(251, 'a'), ".npy"), std::string(251, 'a') + ".npy");
  const std::string cut = with_suffix(std::string(252, 'a'), ".npy");
  EXPECT_EQ(cut.size(), 255U);
  EXPECT_TRUE(cut.ends_with(".npy"));
  EXPECT_TRUE(is_cut_name(std::string_view(cut).substr(0, 251)));
  EXPECT_NE(cut, with_suffix(std::string(253, 'a'), ".npy"));
  // Names that are truncated already.
  EXPECT_EQ(with_suffix(escape_name(std::string(300, 'a')), ".npy").size(), 255U);

  std::string wide;
  for (int i = 0; i < 85; ++i) wide += "温";
  for (size_t start = 0; start < 3; ++start) {
    const std::string name = std::string(start, 'x') + wide.substr(0, wide.size() - 3);
    const std::string cut_wide = with_suffix(name, ".npy");
    EXPECT_LE(cut_wide.size(), 255U);
    EXPECT_GT(cut_wide.size(), 252U);
    for (std::string_view rest = cut_wide; !rest.empty(); rest.remove_prefix(utf8_length(rest)))
      ASSERT_GT(utf8_length(rest), 0U) << start;
  }
}

TEST(Names, LongNamesAreCutAtACharacter) {
  EXPECT_EQ(escape_name(std::string(255, 'a')), std::string(255, 'a'));
  const std::string cut = escape_name(std::string(256, 'a'));
  EXPECT_EQ(cut.size(), 255U);
  EXPECT_TRUE(is_cut_name(cut));
  EXPECT_FALSE(unescape_name(cut));
  EXPECT_NE(cut, escape_name(std::string(257, 'a')));

  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "温";
  const std::string cut_wide = escape_name(wide);
  EXPECT_LE(cut_wide.size(), 255U);
  EXPECT_TRUE(is_utf8(cut_wide));
  EXPECT_TRUE(is_cut_name(cut_wide));

  // A name that resembles a truncated one is escaped.
  const std::string alike = std::string(100, 'a') + "%~0123456789abcdef";
  EXPECT_FALSE(is_cut_name(escape_name(alike)));
  EXPECT_EQ(unescape_name(escape_name(alike)), alike);
}

// A copy of a mounted tree is a store whose names are shown as they are, unless they are escaped forms.
TEST(Names, NamesOfOrdinaryCharactersStay) {
  std::mt19937 random(6);
  static constexpr std::string_view kLikely = "%%%4126az ~.";
  for (int i = 0; i < 20000; ++i) {
    std::string name(1, 'n');
    for (size_t k = random() % 12; k > 0; --k) name += kLikely[random() % kLikely.size()];
    const bool may_differ = name.find("%2") != name.npos;
    if (!may_differ) {
      ASSERT_EQ(escape_name(name), name);
    }
    ASSERT_EQ(unescape_name(escape_name(name)), name);
  }
}

TEST(Names, RandomNamesComeBackAndNoTwoCollide) {
  // Special bytes are frequent, so that all rules are combined.
  static constexpr std::string_view kLikely("%%%%~~./\0azAF09\xC3\xA9\xFF", 19);
  std::mt19937 random(4);
  std::vector<std::pair<std::string, std::string>> seen;
  for (int i = 0; i < 20000; ++i) {
    std::string name;
    const size_t length = random() % (i % 10 == 0 ? 400 : 8);
    for (size_t k = 0; k < length; ++k)
      name += random() % 4 == 0 ? static_cast<char>(random()) : kLikely[random() % kLikely.size()];
    const std::string file_name = escape_name(name);
    ASSERT_GE(file_name.size(), 1U);
    ASSERT_LE(file_name.size(), 255U);
    ASSERT_TRUE(is_utf8(file_name));
    ASSERT_EQ(file_name.find_first_of(std::string_view("/\0", 2)), std::string::npos);
    ASSERT_TRUE(file_name != "." && file_name != "..");
    if (is_cut_name(file_name)) {
      ASSERT_FALSE(unescape_name(file_name));
    } else {
      ASSERT_EQ(unescape_name(file_name), name);
    }
    seen.emplace_back(file_name, name);
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 1; i < seen.size(); ++i)
    if (seen[i].first == seen[i - 1].first) {
      ASSERT_EQ(seen[i].second, seen[i - 1].second);
    }
}

TEST(Names, RandomFileNamesAreOursOrRefused) {
  std::mt19937 random(5);
  static constexpr std::string_view kLikely = "%%~20EeF./az\xC3\xA9";
  for (int i = 0; i < 20000; ++i) {
    std::string file_name;
    for (size_t k = random() % 10; k > 0; --k) file_name += kLikely[random() % kLikely.size()];
    if (const auto name = unescape_name(file_name)) {
      ASSERT_EQ(escape_name(*name), file_name);
    }
  }
}

}  // namespace
TEST(Names, OfAttributesAreEscapedReversibly) {
  const std::pair<const char*, const char*> names[] = {{"d\xE9"
                                                        "bit",
                                                        "d%E9bit"},
                                                       {"d\u00e9bit", "d\u00e9bit"},
                                                       {"d%E9bit", "d%25E9bit"},
                                                       {"d%25E9bit", "d%2525E9bit"},
                                                       {"100%", "100%"},
                                                       {"a%41", "a%41"},
                                                       {"a/b", "a/b"},
                                                       {".zattrs", ".zattrs"},
                                                       {"", ""}};
  for (const auto& [name, shown] : names) {
    EXPECT_EQ(escape_attribute_name(name), shown);
    EXPECT_EQ(unescape_attribute_name(shown), name);
  }
}

// What HDF5 calls "d\xE9 bit" has the file name "d%E9 bit". That is the key of its copy in Zarr, whose file name is
// another.
TEST(Names, ACopyTellsTheNameBefore) {
  for (const char* name : {"d\xE9 bit", "d%E9 bit", "plain", "100%", "", ".zarray", "a/b"}) {
    const std::string shown = escape_name(name);
    EXPECT_EQ(name_before_copy(escape_name(shown)), shown) << name;
  }
  EXPECT_EQ(name_before_copy("plain"), "plain");
  EXPECT_EQ(name_before_copy("d%E9 bit"), "d%E9 bit") << "of a key that is not UTF-8";
}

}  // namespace codecfs
