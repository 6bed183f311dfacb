#include "remote/aws_profile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "remote/credentials.h"
#include "support/environment.h"

namespace codecfs::remote {
namespace {

using Profiles = std::map<std::string, AwsProfile>;

Profiles parse(const std::string& text, AwsFileKind kind) {
  auto profiles = parse_aws_profiles(text, kind, "/x");
  EXPECT_TRUE(profiles) << profiles.error().reason;
  return profiles ? *profiles : Profiles();
}

TEST(AwsProfile, Credentials) {
  const Profiles expected{{"default", {{"aws_access_key_id", "A"}, {"aws_secret_access_key", "b#c;d=e/+"}}},
                          {"other one", {{"aws_access_key_id", "B"}}},
                          {"profile x", {}}};
  EXPECT_EQ(parse("\xef\xbb\xbf# comment\n; comment\n\n[default]\r\nAWS_Access_Key_Id=A\r\n"
                  "aws_secret_access_key =\tb#c;d=e/+  # comment\n"
                  "[ other one ] ; comment\naws_access_key_id = B\nregion = # empty\nx=\n[profile x]\n",
                  AwsFileKind::credentials),
            expected);
}

TEST(AwsProfile, Config) {
  const Profiles expected{{"default", {{"region", "us-east-1"}}},
                          {"a", {{"region", "eu-1"}, {"output", "json"}, {"s3", "x"}}},
                          {"b c", {{"region", "3"}}}};
  EXPECT_EQ(parse("[default]\nregion = us-east-1\n[profile a]\nregion=eu-1\n[profile \"b c\"]\nregion=3\n"
                  "[sso-session z]\nregion=4\n[a]\nregion=5\n[profilea]\nregion=6\n[profile]\nregion=7\n"
                  "[profile\ta]\noutput=json\ns3=x\n",
                  AwsFileKind::config),
            expected);
}

TEST(AwsProfile, PrefixedDefaultHidesDefault) {
  const Profiles expected{{"default", {{"region", "2"}}}};
  EXPECT_EQ(parse("[profile default]\nregion=2\n[default]\nregion=1\noutput=x\n", AwsFileKind::config), expected);
}

TEST(AwsProfile, NestedSettings) {
  const Profiles expected{
      {"default", {{"region", "1"}, {"output", "json"}, {"s3.region", "9"}, {"s3.addressing_style", "path"}}},
      {"a", {{"region", "2"}, {"x", "3"}}},
      {"b", {{"s3", "1"}}},
      {"c", {}}};
  EXPECT_EQ(parse("[default]\nregion = 1\ns3 =\n  region = 9\n  Addressing_Style = path # comment\n  no "
                  "setting\noutput = json\n"
                  // Indented as a whole.
                  "[profile a]\n  region = 2\n    more\n    y = 1\n  x = 3\n"
                  "[profile b]\ns3 = 1\n  addressing_style = path\n[profile c]\n  \n",
                  AwsFileKind::config),
            expected);
}

TEST(AwsProfile, LaterSettingsReplaceEarlierOnes) {
  const Profiles expected{{"a", {{"x", "2"}}}};
  EXPECT_EQ(parse("[a]\nx=1\ny=1\n[b]\n[a]\nx=2\ny=\n", AwsFileKind::credentials).at("a"), expected.at("a"));
}

TEST(AwsProfile, MalformedFilesAreRefusedWithoutTheirContent) {
  for (const std::string text : {"SECRET=1\n", "[a]\nSECRET\n", "[SECRET\nx=1\n", "[a] SECRET\n", "[a]\n=SECRET\n"}) {
    const auto profiles = parse_aws_profiles(text, AwsFileKind::credentials, "/the/file");
    ASSERT_FALSE(profiles) << text;
    EXPECT_EQ(profiles.error().code, EINVAL);
    EXPECT_NE(profiles.error().reason.find("'/the/file', line "), std::string::npos) << profiles.error().reason;
    EXPECT_EQ(profiles.error().reason.find("SECRET"), std::string::npos) << profiles.error().reason;
  }
  EXPECT_NE(parse_aws_profiles("[a]\nx=1\nx\n", AwsFileKind::credentials, "/f").error().reason.find("line 3"),
            std::string::npos);
}

class AwsProfileFiles : public testing::Test {
 protected:
  AwsProfileFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_profile_XXXXXX").string();
    home_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(home_ / ".aws");
    environment_.unset_all("AWS_");
    environment_.set("HOME", home_.string());
  }
  ~AwsProfileFiles() override { std::filesystem::remove_all(home_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(home_ / name) << text; }

  ScopedEnvironment environment_;
  std::filesystem::path home_;
};

TEST_F(AwsProfileFiles, MissingFilesAreEmpty) {
  auto profiles = AwsProfiles::load();
  ASSERT_TRUE(profiles) << profiles.error().reason;
  EXPECT_EQ(profiles->find("default"), nullptr);
  EXPECT_EQ(profiles->files(), "'" + home_.string() + "/.aws/credentials' and '" + home_.string() + "/.aws/config'");
  std::filesystem::remove(home_ / ".aws");
  write(".aws", "");
  EXPECT_TRUE(AwsProfiles::load());
  EXPECT_EQ(profile_setting("", "region").value(), std::nullopt);
}

TEST_F(AwsProfileFiles, CredentialsReplaceTheConfiguration) {
  write(".aws/config",
        "[default]\nregion=1\naws_access_key_id=OLD\naws_secret_access_key=OLD\naws_session_token=OLD\n"
        "[profile a]\nregion=2\naws_access_key_id=CONFIG\n");
  write(".aws/credentials", "[default]\naws_access_key_id=NEW\naws_secret_access_key=NEW\n[a]\nregion=3\n");
  const auto profiles = AwsProfiles::load();
  ASSERT_TRUE(profiles) << profiles.error().reason;
  const AwsProfile merged{{"region", "1"}, {"aws_access_key_id", "NEW"}, {"aws_secret_access_key", "NEW"}};
  EXPECT_EQ(*profiles->find("default"), merged);
  const AwsProfile other{{"region", "3"}, {"aws_access_key_id", "CONFIG"}};
  EXPECT_EQ(*profiles->find("a"), other);
  EXPECT_EQ(profile_setting("", "Region").value(), "1");
  EXPECT_EQ(profile_setting("a", "region").value(), "3");
  EXPECT_EQ(profile_setting("a", "endpoint_url").value(), std::nullopt);
  environment_.set("AWS_PROFILE", "a");
  EXPECT_EQ(profile_setting("", "region").value(), "3");
  EXPECT_EQ(profile_setting("default", "region").value(), "1");
}

TEST_F(AwsProfileFiles, VariablesNameTheFiles) {
  write("c1", "[default]\nregion=1\n");
  environment_.set("AWS_CONFIG_FILE", "~/c1");
  environment_.set("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
  EXPECT_EQ(profile_setting("", "region").value(), "1");
}

TEST_F(AwsProfileFiles, UnreadableFilesAreErrors) {
  write(".aws/config", "[default\n");
  EXPECT_EQ(profile_setting("", "region").error().code, EINVAL);
  write(".aws/config", "[default]\n#" + std::string(kMaxAwsFileBytes, 'x'));
  EXPECT_EQ(profile_setting("", "region").error().code, EINVAL);
  std::filesystem::remove(home_ / ".aws/config");
  ASSERT_EQ(mkfifo((home_ / ".aws/config").c_str(), 0600), 0);
  EXPECT_EQ(profile_setting("", "region").error().code, EINVAL);
  environment_.set("AWS_CONFIG_FILE", "/dev/zero");
  EXPECT_EQ(profile_setting("", "region").error().code, EINVAL);
  environment_.set("AWS_CONFIG_FILE", home_.string());
  EXPECT_EQ(profile_setting("", "region").error().code, EINVAL);
  environment_.set("AWS_CONFIG_FILE", std::string(5000, 'x'));
  EXPECT_EQ(profile_setting("", "region").error().code, EACCES);
}

TEST_F(AwsProfileFiles, HomeOfTheUserDatabase) {
  environment_.unset("HOME");
  EXPECT_NE(AwsProfiles::load()->files().find("/.aws/credentials'"), std::string::npos);
}

}  // namespace
}  // namespace codecfs::remote
