#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

using Words = std::vector<std::string>;

// As Python's shlex.split() splits them.
TEST(SplitCommand, QuotesOfAShell) {
  EXPECT_EQ(split_command("").value(), Words());
  EXPECT_EQ(split_command("  a  b\tc\n").value(), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_command(R"(a 'b  c' "d 'e" f"g"'h')").value(), (Words{"a", "b  c", "d 'e", "fgh"}));
  EXPECT_EQ(split_command(R"(a\ b "\"\\\n$x" 'a\b' \'x)").value(), (Words{"a b", R"("\\n$x)", R"(a\b)", "'x"}));
  EXPECT_EQ(split_command(R"('' a"" #b)").value(), (Words{"", "a", "#b"}));
  EXPECT_EQ(split_command("a > b | $(c) ~").value(), (Words{"a", ">", "b", "|", "$(c)", "~"}));
  for (const char* command : {"a 'b", "\"", "a \\", R"("a\")"}) {
    EXPECT_EQ(split_command(command).error().code, EINVAL) << command;
  }
}

class ProcessCredentials : public CredentialTest {
 protected:
  [[nodiscard]] std::string script(const std::string& text) const {
    const std::string path = write("a script", "#!/bin/sh\n" + text);
    chmod(path.c_str(), 0700);
    return "'" + path + "'";
  }
};

constexpr const char* kPrinted = R"({"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "secret-A",
                                     "SessionToken": "T", "Expiration": "2099-01-02T03:04:05Z"})";

TEST_F(ProcessCredentials, ReadsWhatAProgramPrints) {
  const auto good = process_credentials(
      script(std::string("[ \"$1\" = 'x y' ] && cat && cat <<E\n") + kPrinted + "\nE\n") + " 'x y'");
  ASSERT_TRUE(good) << good.error().reason;
  EXPECT_EQ(good->access_key, "A");
  EXPECT_EQ(good->secret_key, "secret-A");
  EXPECT_EQ(good->session_token, "T");
  EXPECT_TRUE(good->expires);
}

TEST_F(ProcessCredentials, FindsProgramsOnThePath) {
  const auto found = process_credentials(R"(echo '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "B"}')");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->secret_key, "B");
  EXPECT_EQ(found->expires, std::nullopt);
}

TEST_F(ProcessCredentials, FailuresNameTheProgramButNotItsArguments) {
  const auto refused = [](const std::string& command, std::string_view reason) {
    const auto found = process_credentials(command);
    EXPECT_FALSE(found || found.error().reason.contains("SECRET")) << found.error().reason;
    return is_refusal(found, {"credential_process", reason});
  };
  EXPECT_TRUE(refused("", "names no program"));
  EXPECT_TRUE(refused("'SECRET", "does not end"));
  EXPECT_TRUE(refused("false SECRET", "'false' fails with exit status 1"));
  EXPECT_TRUE(refused("echo SECRET", "does not print a JSON object with Version 1"));
  EXPECT_TRUE(refused(R"(echo '{"Version": 2, "AccessKeyId": "SECRET", "SecretAccessKey": "SECRET"}')", "Version 1"));
  EXPECT_TRUE(refused(R"(echo '{"Version": 1, "AccessKeyId": "SECRET"}')", "missing"));
  EXPECT_TRUE(refused(script("kill -9 $$") + " SECRET", "killed by signal 9"));
  EXPECT_TRUE(refused("yes SECRET", "prints more than 65536 bytes"));
  const auto missing = process_credentials("/does/not/exist SECRET");
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_TRUE(missing.error().reason.contains("'/does/not/exist' cannot be started")) << missing.error().reason;
}

// The process group of a program that prints too much is killed, with what it has started.
TEST_F(ProcessCredentials, LeavesNoProcess) {
  const std::string pid = (home_ / "pid").string();
  EXPECT_FALSE(process_credentials(script("sleep 1000 & echo $! >'" + pid + "'; yes")));
  std::ifstream file(pid);
  int number = 0;
  file >> number;
  ASSERT_GT(number, 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto runs = [&] {
    std::ifstream status("/proc/" + std::to_string(number) + "/stat");
    std::string text;
    std::getline(status, text);
    return !text.empty() && !text.contains(") Z ");
  };
  while (runs() && std::chrono::steady_clock::now() < until) usleep(1000);
  EXPECT_FALSE(runs());
}

}  // namespace
}  // namespace codecfs::remote
