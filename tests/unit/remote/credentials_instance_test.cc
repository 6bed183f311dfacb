#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

class Instance : public CredentialTest {
 protected:
  Instance() {
    environment_.unset("AWS_EC2_METADATA_DISABLED");
    environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server_.url() + "/");
  }

  std::string answer(const ServedRequest& request) {
    if (request.target == "/latest/api/token") {
      if (request.method != "PUT" || request.header("x-aws-ec2-metadata-token-ttl-seconds") != "21600") {
        return http_answer(400);
      }
      return session_;
    }
    if (request.method != "GET" || request.header("x-aws-ec2-metadata-token") != "SESSION==") return http_answer(401);
    if (request.target == "/latest/meta-data/iam/security-credentials/") return roles_;
    if (request.target == "/latest/meta-data/iam/security-credentials/my%20role") return credentials_;
    return http_answer(404);
  }

  std::string session_ = http_answer(200, "SESSION==");
  std::string roles_ = http_answer(200, "my role\nother\n");
  std::string credentials_ = json_answer("I", kFarFuture);
  HttpServer server_{[this](const ServedRequest& request) { return answer(request); }};
};

TEST_F(Instance, AsksForTheRoleOfTheInstance) {
  const auto found = instance_credentials(*http_);
  ASSERT_TRUE(is_key(found, "I"));
  EXPECT_EQ((*found)->session_token, "token-I");
  EXPECT_TRUE((*found)->expires);
}

TEST_F(Instance, Disabled) {
  environment_.set("AWS_EC2_METADATA_DISABLED", "TRUE");
  EXPECT_EQ(instance_credentials(*http_).value(), std::nullopt);
  EXPECT_EQ(server_.requests(), 0u);
}

TEST_F(Instance, NoInstanceOrNoRole) {
  for (const std::string& session : {http_answer(404), http_answer(403), http_answer(200), http_answer(200, "<a b>")}) {
    session_ = session;
    EXPECT_EQ(instance_credentials(*http_).value(), std::nullopt) << session;
  }
  session_ = http_answer(200, "SESSION==");
  for (const std::string& roles : {http_answer(404), http_answer(200, "\n")}) {
    roles_ = roles;
    EXPECT_EQ(instance_credentials(*http_).value(), std::nullopt) << roles;
  }
  environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1");
  EXPECT_EQ(instance_credentials(*http_).value(), std::nullopt);
}

TEST_F(Instance, AServiceThatDoesNotAnswerIsGivenUp) {
  HttpServer silent([](const ServedRequest&) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return std::string();
  });
  environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", silent.url());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(instance_credentials(*http_).value(), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  EXPECT_LE(silent.requests(), 2u);
}

TEST_F(Instance, Failures) {
  roles_ = http_answer(401);
  EXPECT_TRUE(is_refusal(instance_credentials(*http_), {"the instance metadata at " + server_.url(), "401"}));
  roles_ = http_answer(200, "unknown");
  EXPECT_TRUE(is_refusal(instance_credentials(*http_), {"404"}));
  roles_ = http_answer(200, "my role");
  credentials_ = json_answer("I", "2000-01-01T00:00:00Z");
  EXPECT_TRUE(is_refusal(instance_credentials(*http_), {"expired"}));
  credentials_ = http_answer(200, "SECRET");
  const auto found = instance_credentials(*http_);
  EXPECT_TRUE(is_refusal(found, {"not a JSON object"}));
  EXPECT_FALSE(found.error().reason.contains("SECRET"));
}

}  // namespace
}  // namespace codecfs::remote
