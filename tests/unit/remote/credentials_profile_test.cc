#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

class ProfileCredentials : public CredentialTest {
 protected:
  ProfileCredentials() {
    environment_.set("AWS_ENDPOINT_URL_STS", server_.url());
    (void)write(".aws/credentials",
                "[keys]\naws_access_key_id = K\naws_secret_access_key = secret-K\naws_session_token = T\n"
                "[half]\naws_access_key_id = K\n");
  }

  /// Of a profile in this configuration.
  FoundCredentials find(const std::string& name, const std::string& config) {
    (void)write(".aws/config", config);
    const auto profiles = AwsProfiles::load();
    EXPECT_TRUE(profiles) << profiles.error().reason;
    return profile_credentials(*http_, *profiles, name, "eu-central-1");
  }

  /// The access keys that signed the requests, and the roles.
  std::vector<std::string> assumed_;
  HttpServer server_{[this](const ServedRequest& request) {
    const auto between = [](const std::string& text, const std::string& begin, const std::string& end) {
      const size_t from = text.find(begin);
      if (from == text.npos) return std::string();
      const size_t start = from + begin.size();
      return text.substr(start, text.find(end, start) - start);
    };
    const std::string role = between(request.body, "RoleArn=", "&");
    assumed_.push_back(between(request.header("authorization"), "Credential=", "/") + ">" + role);
    return sts_answer(between(request.body, "Action=", "&"), "by-" + role, kFarFuture);
  }};
};

using Steps = std::vector<std::string>;

TEST_F(ProfileCredentials, Keys) {
  const auto found = find("keys", "");
  ASSERT_TRUE(is_key(found, "K"));
  EXPECT_EQ((*found)->session_token, "T");
  EXPECT_EQ((*found)->expires, std::nullopt);
  EXPECT_TRUE(is_refusal(find("half", ""), {"the profile \"half\"", "missing"}));
  EXPECT_EQ(find("empty", "[profile empty]\nregion=x\n").value(), std::nullopt);
  EXPECT_TRUE(is_refusal(find("other", ""), {"no profile \"other\" in '" + home_.string() + "/.aws/credentials'"}));
}

TEST_F(ProfileCredentials, RolesOfOtherProfiles) {
  const std::string config =
      "[profile a]\nrole_arn=A\nsource_profile=b\n[profile b]\nrole_arn=B\nsource_profile=keys\n"
      "role_session_name=s\nduration_seconds=900\nexternal_id=x\n";
  EXPECT_TRUE(is_key(find("a", config), "by-A"));
  EXPECT_EQ(assumed_, (Steps{"K>B", "by-B>A"}));
}

TEST_F(ProfileCredentials, ARoleWithTheKeysOfItsOwnProfile) {
  const std::string config =
      "[profile self]\nrole_arn=A\nsource_profile=self\naws_access_key_id=S\naws_secret_access_key=secret-S\n"
      "[profile user]\nrole_arn=B\nsource_profile=self\n";
  EXPECT_TRUE(is_key(find("self", config), "by-A"));
  EXPECT_EQ(assumed_, Steps{"S>A"});
  // A source with keys and a role: its keys.
  EXPECT_TRUE(is_key(find("user", config), "by-B"));
  EXPECT_EQ(assumed_, (Steps{"S>A", "S>B"}));
}

TEST_F(ProfileCredentials, LoopsAreErrors) {
  EXPECT_TRUE(is_refusal(find("a", "[profile a]\nrole_arn=A\nsource_profile=a\n"), {"its own source_profile"}));
  EXPECT_TRUE(is_refusal(find("a",
                              "[profile a]\nrole_arn=A\nsource_profile=b\n[profile b]\nrole_arn=B\n"
                              "source_profile=c\n[profile c]\nrole_arn=C\nsource_profile=b\n"),
                         {"the profile \"b\" is its own source_profile"}));
  EXPECT_EQ(assumed_, Steps());
}

TEST_F(ProfileCredentials, RolesOfOtherPlaces) {
  const std::string begin = "[profile a]\nrole_arn=A\ncredential_source=";
  EXPECT_TRUE(is_refusal(find("a", begin + "Environment\n"), {"credential_source Environment has no credentials"}));
  environment_.set("AWS_ACCESS_KEY_ID", "E");
  environment_.set("AWS_SECRET_ACCESS_KEY", "secret-E");
  EXPECT_TRUE(is_key(find("a", begin + "Environment\n"), "by-A"));

  HttpServer places([](const ServedRequest& request) {
    if (request.target == "/container") return json_answer("C", kFarFuture);
    if (request.method == "PUT") return http_answer(200, "SESSION");
    return request.target.ends_with("/role") ? json_answer("I", kFarFuture) : http_answer(200, "role");
  });
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", places.url() + "/container");
  EXPECT_TRUE(is_key(find("a", begin + "EcsContainer\n"), "by-A"));
  environment_.unset("AWS_EC2_METADATA_DISABLED");
  environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", places.url());
  EXPECT_TRUE(is_key(find("a", begin + "Ec2InstanceMetadata\n"), "by-A"));
  EXPECT_EQ(assumed_, (Steps{"E>A", "C>A", "I>A"}));
  EXPECT_TRUE(is_refusal(find("a", begin + "Other\n"), {"credential_source is none of"}));
}

TEST_F(ProfileCredentials, WebIdentityComesBeforeASource) {
  const std::string token = write("token", "t");
  EXPECT_TRUE(
      is_key(find("a", "[profile a]\nrole_arn=A\nsource_profile=keys\nweb_identity_token_file=~/token\n"), "by-A"));
  EXPECT_EQ(assumed_, Steps{">A"});
}

TEST_F(ProfileCredentials, Programs) {
  const std::string program =
      R"(credential_process = echo '{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "secret-P"}')";
  EXPECT_TRUE(is_key(find("a", "[profile a]\nsso_session=x\n" + program + "\n"), "P"));
  EXPECT_TRUE(is_key(find("b", "[profile b]\nrole_arn=B\nsource_profile=a\n[profile a]\n" + program + "\n"), "by-B"));
  EXPECT_EQ(assumed_, Steps{"P>B"});
  EXPECT_TRUE(is_refusal(find("a", "[profile a]\ncredential_process=false\n"), {"the profile \"a\"", "exit status 1"}));
}

TEST_F(ProfileCredentials, WhatCannotBeUsedHasAReason) {
  const std::string role = "[profile a]\nrole_arn=A\n";
  EXPECT_TRUE(is_refusal(find("a", role), {"the profile \"a\"", "role_arn needs one of"}));
  EXPECT_TRUE(is_refusal(find("a", role + "source_profile=keys\ncredential_source=Environment\n"), {"needs one of"}));
  EXPECT_TRUE(is_refusal(find("a", role + "source_profile=keys\nmfa_serial=x\n"), {"mfa_serial"}));
  EXPECT_TRUE(is_refusal(find("a", role + "source_profile=keys\nduration_seconds=1h\n"), {"duration_seconds"}));
  EXPECT_TRUE(is_refusal(find("a", role + "source_profile=none\n"), {"no profile \"none\""}));
  EXPECT_TRUE(is_refusal(find("a", role + "source_profile=b\n[profile b]\nregion=x\n"),
                         {"source_profile \"b\" has no credentials"}));
  EXPECT_TRUE(is_refusal(find("a", "[profile a]\nsso_start_url=x\n"), {"IAM Identity Center", "credential_process"}));
  EXPECT_EQ(assumed_, Steps());
}

}  // namespace
}  // namespace codecfs::remote
