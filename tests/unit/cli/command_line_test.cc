// Which command a command line requests.

#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/mount.h"

namespace codecfs::cli {
namespace {

Result<std::unique_ptr<Command>> parse(const std::vector<const char*>& words) {
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

/// Runs the command; returns what it prints on stdout, or its exit code and what it prints on stderr.
std::string outcome_of(const std::vector<const char*>& words) {
  const auto command = parse(words);
  if (!command) return command.error().reason;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = (*command)->run();
  const std::string output = testing::internal::GetCapturedStdout();
  const std::string errors = testing::internal::GetCapturedStderr();
  return code == 0 ? output : std::to_string(code) + " " + errors;
}

TEST(CommandLine, HelpTakesPrecedence) {
  EXPECT_TRUE(outcome_of({"codecfs", "-o", "nosuch", "--help", "-V"}).starts_with("Mounts an HDF5"));
  EXPECT_TRUE(outcome_of({"codecfs", "-V", "-x", "/nowhere"}).starts_with("codecfs "));
  EXPECT_TRUE(outcome_of({"codecfs", "check", "-x", "--help"}).starts_with("report whether"));
}

TEST(CommandLine, HelpListsTheGroupsOfOptionsInThisOrder) {
  const std::string help = outcome_of({"codecfs", "-h"});
  size_t last = 0;
  for (const char* text : {"Positionals:", "Mounting:", "  -F ", "Information:", "  -V,", "Commands", "codecfs unmount",
                           "codecfs check", "codecfs recover", "codecfs compact", "Options of -o", "Exit codes:"}) {
    const size_t at = help.find(text, last);
    ASSERT_NE(at, std::string::npos) << text << " is missing, or not there:\n" << help;
    last = at;
  }
}

TEST(CommandLine, EachCommandHasHelpWithAnExample) {
  for (const char* name : {
#define CODECFS_COMMAND(name) #name,
#include "cli/all.inc"
#undef CODECFS_COMMAND
       }) {
    const std::string help = outcome_of({"codecfs", name, "--help"});
    EXPECT_NE(help.find(std::string("codecfs ") + name), std::string::npos) << help;
    EXPECT_NE(help.find("\nExample"), std::string::npos) << help;
    const std::string wrong = outcome_of({"codecfs", name, "--nosuch"});
    EXPECT_NE(wrong.find(std::string("see codecfs ") + name + " --help"), std::string::npos) << wrong;
  }
}

TEST(CommandLine, ReportsErrorsOfCommandsInOneLine) {
  for (const char* name : {"check", "recover", "compact", "unmount", "--check", "--recover", "--compact", "-u"})
    EXPECT_EQ(outcome_of({"codecfs", name, "/no\nwhere"}), "32 codecfs: /no where: No such file or directory\n");
  EXPECT_EQ(outcome_of({"codecfs", "/nowhere", "/mnt", "-o", "nofail"}), "") << "nothing to do";
  EXPECT_EQ(outcome_of({"codecfs", "-f", "-F", "v,nosuch", "/nowhere", "/mnt"}).substr(0, 11), "1 codecfs: ");
}

TEST(CommandLine, ExtraArgumentsAreErrors) {
  for (const char* name : {"check", "--check", "unmount", "-u"})
    for (const char* extra : {"-o", "-F", "/else"}) {
      const std::string told = outcome_of({"codecfs", name, "/nowhere", extra});
      EXPECT_NE(told.find(extra), std::string::npos) << told;
      EXPECT_NE(told.find(" --help)"), std::string::npos) << told;
    }
  EXPECT_NE(outcome_of({"codecfs", "a", "b", "--check", "c"}).find("--check"), std::string::npos);
}

TEST(CommandLine, FormerOptionsTakeTheirValueInEveryForm) {
  for (const char* words : {"--check=/nowhere", "--unmount=/nowhere", "-u/nowhere"})
    EXPECT_EQ(outcome_of({"codecfs", words}), "32 codecfs: /nowhere: No such file or directory\n") << words;
}

TEST(CommandLine, MisspelledCommandsAreNamed) {
  for (const char* word : {"inof", "verfy", "convrt", "recdoe"}) {
    const std::string told = outcome_of({"codecfs", word, "a", "b"});
    EXPECT_NE(told.find("did you mean codecfs "), std::string::npos) << told;
  }
}

TEST(CommandLine, MountsByDefault) {
  for (const char* source : {"a", "./check", "-"}) {
    const auto command = parse({"codecfs", source, "b"});
    ASSERT_TRUE(command) << command.error().reason;
    ASSERT_NE(dynamic_cast<const MountCommand*>(command->get()), nullptr);
  }
}

}  // namespace
}  // namespace codecfs::cli
