// What other users see of the command line in ps.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace codecfs::cli {
namespace {

std::string hidden(std::string word) {
  std::string program = "codecfs";
  std::vector<char*> arguments{program.data(), word.data()};
  hide_secrets(2, arguments.data());
  EXPECT_EQ(program, "codecfs");
  return word;
}

TEST(HiddenSecrets, QueriesAndPrograms) {
  EXPECT_EQ(hidden("https://host/a?sig=1,2"), "https://host/a?*******");
  EXPECT_EQ(hidden("https://host/a?"), "https://host/a?");
  EXPECT_EQ(hidden("https://host/a"), "https://host/a");
  EXPECT_EQ(hidden("ro,credential_process=print key,region=x"), "ro,credential_process=*********,region=x");
  EXPECT_EQ(hidden("-ocredential_process=a\\,b,ro"), "-ocredential_process=****,ro");
  EXPECT_EQ(hidden("credential_process=a\\"), "credential_process=**");
  EXPECT_EQ(hidden("credential_url=https://host/a?t=1,ro"), "credential_url=https://host/a?***,ro");
  for (const char* const word : {"what?.nc", "ro,filter=v?", "", ",", "-o", "credential_url=https://host/a"})
    EXPECT_EQ(hidden(word), word);
}

}  // namespace
}  // namespace codecfs::cli
