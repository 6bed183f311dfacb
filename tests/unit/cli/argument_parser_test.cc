#include "cli/argument_parser.h"

#include <gtest/gtest.h>

namespace codecfs::cli {
namespace {

struct Arguments {
  ArgumentParser parser{"program", "Does it."};
  std::string from;
  std::vector<std::string> rules;
  bool quiet = false;

  Arguments() {
    parser.add_value("FROM", from, {.text = "what to read"});
    parser.add_values("-r,--rule", rules, {.group = "More", .text = "may be repeated", .value = "RULE"});
    parser.add_flag("-q", quiet, {.group = "More", .text = "print nothing"});
  }
  Result<> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    return parser.parse(static_cast<int>(words.size()), words.data());
  }
};

TEST(ArgumentParser, StoresTheValues) {
  Arguments arguments;
  ASSERT_TRUE(arguments.parse({"--rule", "a,b", "here", "-rc", "-q"}));
  EXPECT_EQ(arguments.from, "here");
  EXPECT_EQ(arguments.rules, (std::vector<std::string>{"a,b", "c"})) << "one value for each option";
  EXPECT_TRUE(arguments.quiet);
}

TEST(ArgumentParser, NothingIsRequired) {
  Arguments arguments;
  ASSERT_TRUE(arguments.parse({}));
  EXPECT_TRUE(arguments.from.empty() && arguments.rules.empty() && !arguments.quiet);
}

TEST(ArgumentParser, RefusesWhatWasNotAdded) {
  for (const char* wrong : {"--help", "-x", "second"}) {
    Arguments arguments;
    const auto parsed = arguments.parse({"first", wrong});
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, EINVAL);
    EXPECT_NE(parsed.error().reason.find(wrong), std::string::npos) << parsed.error().reason;
  }
  Arguments arguments;
  EXPECT_FALSE(arguments.parse({"-r"})) << "it takes a value";
}

TEST(ArgumentParser, HelpShowsGroupsAndValues) {
  const Arguments arguments;
  const std::string help = arguments.parser.help();
  for (const char* text : {"Does it.", "program", "what to read", "More:", "RULE"})
    EXPECT_NE(help.find(text), std::string::npos) << text << " is not in:\n" << help;
}

}  // namespace
}  // namespace codecfs::cli
