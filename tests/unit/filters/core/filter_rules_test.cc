// Filter rules: the filter document's table of all cases, names and their escapes, repetition, errors with positions;
// and the order of filters in a pipeline.

#include "filters/core/filter_rules.h"

#include "filters/core/filter_spec.h"
#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

FilterRules rules_of(const std::vector<std::string>& texts) {
  FilterRules rules;
  for (const std::string& text : texts) {
    const Result<> added = rules.add(text);
    EXPECT_TRUE(added) << added.error().reason;
  }
  return rules;
}

/// The result for a variable: "unchanged", "none" or a spec.
std::string applied(const std::vector<std::string>& texts, std::string_view name) {
  const auto chain = rules_of(texts).resolve(name);
  if (!chain) return "unchanged";
  return chain->empty() ? "none" : *print_filter_spec(*chain);
}

/// The applied output filter, given the input filter.
std::string output(const std::vector<std::string>& texts, const std::string& input) {
  const std::string result = applied(texts, "/v");
  return result == "unchanged" ? input : result;
}

// The table of the filter document, row by row: -F none | -F var,... | input filter | applied filter. "NA" stands for
// any input filter, deflate included (nccopy forgets that one).
TEST(FilterRules, TheTruthTable) {
  for (const std::string input : {"none", "1,5", "2,4|1,5", "307,9"}) {
    for (const std::string suppress : {"none", "*,none", "*,NONE", "*,"}) {
      EXPECT_EQ(output({suppress}, input), "none");                  // true, undefined, NA
      EXPECT_EQ(output({suppress, "v,none"}, input), "none");        // true, none, NA
      EXPECT_EQ(output({"v,none", suppress}, input), "none");        //   in either order
      EXPECT_EQ(output({suppress, "v,32015,3"}, input), "32015,3");  // true, defined, NA
      EXPECT_EQ(output({"v,32015,3", suppress}, input), "32015,3");  //   in either order
      EXPECT_EQ(output({suppress, "w,32015,3"}, input), "none");     //   of another variable
      EXPECT_EQ(output({suppress, "*,32015,3"}, input), "32015,3");  //   of all
    }
    EXPECT_EQ(output({}, input), input);  // false, undefined, defined or undefined
    EXPECT_EQ(output({"w,32015,3"}, input), input);
    EXPECT_EQ(output({"w,none"}, input), input);
    EXPECT_EQ(output({"v,none"}, input), "none");        // false, none, NA
    EXPECT_EQ(output({"v,32015,3"}, input), "32015,3");  // false, defined, undefined or defined
  }
}

TEST(FilterRules, TellsUnchangedFromNoFilters) {
  EXPECT_EQ(applied({}, "/v"), "unchanged");
  EXPECT_EQ(applied({"w,1,5"}, "/v"), "unchanged");
  EXPECT_EQ(applied({"v,none"}, "/v"), "none");
  EXPECT_EQ(applied({"v,"}, "/v"), "none");
  EXPECT_TRUE(FilterRules().empty());
  EXPECT_FALSE(rules_of({"none"}).empty());
  EXPECT_FALSE(rules_of({"v,none"}).empty());
}

TEST(FilterRules, NamesAreFullNames) {
  const std::vector<std::string> rules = {"v&w,1,1", "/g/v & g2/sub/x , 307,9", "temp sea,1,3"};
  EXPECT_EQ(applied(rules, "/v"), "1,1");
  EXPECT_EQ(applied(rules, "/w"), "1,1");
  EXPECT_EQ(applied(rules, "/g/v"), "307,9");
  EXPECT_EQ(applied(rules, "/g2/sub/x"), "307,9");
  EXPECT_EQ(applied(rules, "/temp sea"), "1,3");
  for (const char* name : {"/g/w", "/x", "/g", "/", "/V", "/g/v/v", "v"}) EXPECT_EQ(applied(rules, name), "unchanged");
  EXPECT_EQ(applied({"*,1,1"}, "/deep/down/here"), "1,1");
  EXPECT_EQ(applied({" * ,1,1"}, "/v"), "1,1");
  EXPECT_EQ(applied({"/,1,1"}, "/"), "1,1");  // a source that is one array
  EXPECT_EQ(applied({"*,1,1"}, "/"), "1,1");
  EXPECT_EQ(applied({"none,1,1"}, "/none"), "1,1");  // a variable may be called so
  EXPECT_EQ(applied({"none,1,1"}, "/v"), "unchanged");
}

TEST(FilterRules, BackslashTakesTheNextCharacterAsItIs) {
  EXPECT_EQ(applied({R"(a\,b,1,1)"}, "/a,b"), "1,1");
  EXPECT_EQ(applied({R"(a\&b,1,1)"}, "/a&b"), "1,1");
  EXPECT_EQ(applied({R"(\*,1,1)"}, "/*"), "1,1");
  EXPECT_EQ(applied({R"(\*,1,1)"}, "/v"), "unchanged");
  EXPECT_EQ(applied({R"(a\\,1,1)"}, R"(/a\)"), "1,1");
  EXPECT_EQ(applied({R"(\ a\ ,1,1)"}, "/ a "), "1,1");
  EXPECT_EQ(applied({R"(\a\b,1,1)"}, "/ab"), "1,1");
  EXPECT_EQ(applied({"\xc3\xa9t\xc3\xa9,1,1"}, "/\xc3\xa9t\xc3\xa9"), "1,1");
}

TEST(FilterRules, RepetitionAddsUpInOrder) {
  EXPECT_EQ(applied({"v,307,9", "v,40000,1"}, "/v"), "307,9|40000,1");  // as nccopy does
  EXPECT_EQ(applied({"*,307,9", "v,40000,1"}, "/v"), "307,9|40000,1");
  EXPECT_EQ(applied({"*,307,9", "v,40000,1"}, "/w"), "307,9");
  EXPECT_EQ(applied({"v,307,9", "v,307,4"}, "/v"), "307,4");
  EXPECT_EQ(applied({"v&v,307,9"}, "/v"), "307,9");
  EXPECT_EQ(applied({"v,1,5|2", "v,3"}, "/v"), "3|2|1,5");  // arranged
}

TEST(FilterRules, NoneForAVariableDoesNotDependOnItsPosition) {
  EXPECT_EQ(applied({"*,307,9", "v,none"}, "/v"), "none");
  EXPECT_EQ(applied({"v,none", "*,307,9"}, "/v"), "none");
  EXPECT_EQ(applied({"v,none", "*,307,9"}, "/w"), "307,9");
  EXPECT_EQ(applied({"v,none", "v,307,9"}, "/v"), "none");
  EXPECT_EQ(applied({"v,307,9", "v,none"}, "/v"), "none");
  EXPECT_EQ(applied({"v&w,none", "w,307,9", "x,1,1"}, "/w"), "none");
  EXPECT_EQ(applied({"v&w,none", "w,307,9", "x,1,1"}, "/x"), "1,1");
}

TEST(FilterRules, TheOlderSeparatorOfNames) {
  for (const char* name : {"/v", "/g/w"}) EXPECT_EQ(applied({"v|/g/w,1,1|2"}, name), "2|1,1");
  EXPECT_EQ(applied({"v|w&x,none"}, "/w"), "none");
  EXPECT_EQ(applied({R"(v\|w,1,1)"}, "/v|w"), "1,1");
  EXPECT_EQ(applied({R"(v\|w,1,1)"}, "/w"), "unchanged");
}

TEST(FilterRules, PointsAtWhatIsWrong) {
  const std::vector<std::tuple<const char*, const char*, const char*>> cases = {
      {"", "at the end of", "missing"},
      {"v", "at the end of", "comma"},
      {"*", "at the end of", "comma"},
      {"v&w", "at the end of", "comma"},
      {",307,9", "character 1 of", "missing"},
      {" ,307,9", "character 2 of", "missing"},
      {"&v,307,9", "character 1 of", "missing"},
      {"v&,307,9", "character 3 of", "missing"},
      {"v&&w,307,9", "character 3 of", "missing"},
      {"v&", "at the end of", "missing"},
      {"v|,307,9", "character 3 of", "missing"},
      {"v&*,307,9", "character 3 of", "stands alone"},
      {"*&v,307,9", "character 1 of", "stands alone"},
      {"te*,307,9", "character 3 of", "stands alone"},
      {"/*,307,9", "character 2 of", "stands alone"},
      {"**,307,9", "character 1 of", "stands alone"},
      {R"(\**,307,9)", "character 3 of", "stands alone"},
      {"/g/,307,9", "character 1 of", "group"},
      {"v&g/,307,9", "character 3 of", "group"},
      {"/g//v,307,9", "character 1 of", "//"},
      {"//,307,9", "character 1 of", "group"},
      {"v\\", "at the end of", "backslash"},
      {"v,307,3.5", "character 8 of \"v,307,3.5\"", "add f or d"},
      {"v,307,", "at the end of", "missing"},
      {"v&w,nosuchfilter", "character 5 of", "no filter"},
      {"*,none|1", "character 3 of", "alone"},
      {"\xc3\xa9,307;9", "character 6 of", "number"},
  };
  for (const auto& [text, where, says] : cases) {
    FilterRules rules;
    const Result<> added = rules.add(text);
    ASSERT_FALSE(added) << text;
    EXPECT_EQ(added.error().code, EINVAL) << text;
    EXPECT_TRUE(added.error().reason.starts_with(where)) << text << ": " << added.error().reason;
    EXPECT_NE(added.error().reason.find(says), std::string::npos) << text << ": " << added.error().reason;
    EXPECT_TRUE(rules.empty()) << "a rule that is refused leaves nothing behind: " << text;
  }
}

std::string arranged(std::string_view spec) { return *print_filter_spec(arrange_chain(*parse_filter_spec(spec))); }

// The filter document's "special cases": netCDF puts them so on disk.
TEST(ArrangeChain, ChecksumThenShuffleThenTheRest) {
  EXPECT_EQ(arranged("1,5|2|3"), "3|2|1,5");  // what nccopy -F makes of it, observed
  EXPECT_EQ(arranged("2,4|1,5|3"), "3|2,4|1,5");
  EXPECT_EQ(arranged("307,9|4,32,32"), "307,9|4,32,32");
  EXPECT_EQ(arranged("4,32,32|307,9"), "4,32,32|307,9");
  EXPECT_EQ(arranged("32015,3|2"), "2|32015,3");
  EXPECT_EQ(arranged("32015,3|3"), "3|32015,3");
  EXPECT_EQ(arranged("3|2|1,5"), "3|2|1,5");
  EXPECT_EQ(arranged(""), "");
}

TEST(ArrangeChain, ARepeatedFilterKeepsItsPlaceAndTakesTheLastParameters) {
  EXPECT_EQ(arranged("1,5|307,9|1,6"), "1,6|307,9");
  EXPECT_EQ(arranged("1,5|1|1,2,3"), "1,2,3");
  EXPECT_EQ(arranged("307|1,5|2,8|307,4|2,4|3"), "3|2,4|307,4|1,5");
  std::vector<FilterStage> codecs = zarr_chain(R"([{"id": "delta", "dtype": "<i4"}, {"id": "packbits"}])");
  ASSERT_EQ(arrange_chain(codecs).size(), 2U) << "codecs without an id are not the same filter";
}

TEST(ArrangeChain, NumcodecsNeedsShuffleFirstWhereItsElementsDoNotDivideTheChecksum) {
  const auto chain = arrange_chain(*parse_filter_spec("3|2|1,5"));
  for (const uint64_t size : {1, 2, 4}) EXPECT_FALSE(shuffle_goes_first(chain, size)) << size;
  for (const uint64_t size : {0, 3, 5, 8, 16}) EXPECT_TRUE(shuffle_goes_first(chain, size)) << size;
  EXPECT_FALSE(shuffle_goes_first(arrange_chain(*parse_filter_spec("3|1,5")), 8));
  EXPECT_FALSE(shuffle_goes_first(arrange_chain(*parse_filter_spec("2|1,5")), 8));
  EXPECT_FALSE(shuffle_goes_first({}, 8));
}

}  // namespace
}  // namespace codecfs::filters
