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
  EXPECT_TRUE(outcome_of({"codecfs", "--help", "--check", "/nowhere", "-V"}).starts_with("Mounts an HDF5"));
  EXPECT_TRUE(outcome_of({"codecfs", "-V", "-u", "/nowhere"}).starts_with("codecfs "));
}

TEST(CommandLine, HelpListsTheGroupsOfOptionsInThisOrder) {
  const std::string help = outcome_of({"codecfs", "-h"});
  size_t last = 0;
  for (const char* text : {"Positionals:", "Mounting:", "  -F ", "  -u,--unmount", "Without mounting:", "  --check",
                           "  --recover", "  --compact", "Information:", "  -V,", "Options of -o", "Exit codes:"}) {
    const size_t at = help.find(text, last);
    ASSERT_NE(at, std::string::npos) << text << " is missing, or not there:\n" << help;
    last = at;
  }
}

TEST(CommandLine, ReportsErrorsOfCommandsInOneLine) {
  for (const char* option : {"--check", "--recover", "--compact", "-u"})
    EXPECT_EQ(outcome_of({"codecfs", option, "/no\nwhere"}), "32 codecfs: /no where: No such file or directory\n");
  EXPECT_EQ(outcome_of({"codecfs", "/nowhere", "/mnt", "-o", "nofail"}), "") << "nothing to do";
  EXPECT_EQ(outcome_of({"codecfs", "-F", "v,nosuch", "/nowhere", "/mnt"}).substr(0, 11), "1 codecfs: ");
}

TEST(CommandLine, UnmountTakesNoOtherArguments) {
  for (const char* option : {"-o", "-F"})
    EXPECT_EQ(outcome_of({"codecfs", "-u", "/nowhere", option, "ro"}), "usage: codecfs --unmount MOUNTPOINT");
  EXPECT_EQ(outcome_of({"codecfs", "-u", "/nowhere", "/else"}), "usage: codecfs --unmount MOUNTPOINT");
}

TEST(CommandLine, MountsByDefault) {
  const auto command = parse({"codecfs", "a", "b", "--check", ""});
  ASSERT_TRUE(command) << command.error().reason;
  ASSERT_NE(dynamic_cast<const MountCommand*>(command->get()), nullptr);
}

}  // namespace
}  // namespace codecfs::cli
