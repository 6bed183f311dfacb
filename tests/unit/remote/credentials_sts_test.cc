#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "remote/credential_answers.h"
#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

const Credentials kSource{.access_key = "SOURCE", .secret_key = "SECRET/1", .session_token = "TOKEN/2", .expires = {}};

class Sts : public CredentialTest {
 protected:
  Sts() { environment_.set("AWS_ENDPOINT_URL_STS", server_.url()); }

  std::vector<ServedRequest> requests_;
  std::string answer_;
  HttpServer server_{[this](const ServedRequest& request) {
    requests_.push_back(request);
    return answer_;
  }};
};

TEST_F(Sts, AssumeRoleIsSigned) {
  answer_ = sts_answer("AssumeRole", "A", kFarFuture);
  const auto found = assume_role(
      *http_, "eu-central-1",
      {.arn = "arn:aws:iam::1:role/r", .session_name = "me@x", .external_id = "a&b=c d", .duration = "1800"}, kSource);
  ASSERT_TRUE(is_key(found, "A"));
  EXPECT_EQ(found->session_token, "token-A");
  EXPECT_EQ(found->expires, parse_expiration(kFarFuture));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].method, "POST");
  EXPECT_EQ(requests_[0].target, "/");
  EXPECT_EQ(requests_[0].body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=me%40x"
            "&DurationSeconds=1800&ExternalId=a%26b%3Dc%20d");
  EXPECT_EQ(requests_[0].header("x-amz-security-token"), "TOKEN/2");
  const std::string authorization = requests_[0].header("authorization");
  EXPECT_TRUE(authorization.contains("Credential=SOURCE/")) << authorization;
  EXPECT_TRUE(authorization.contains("/eu-central-1/sts/aws4_request")) << authorization;
}

TEST_F(Sts, WebIdentityIsNotSigned) {
  answer_ = sts_answer("AssumeRoleWithWebIdentity", "W", kFarFuture);
  const std::string path = write("token", "a.b/c\n");
  const auto found = assume_role_with_web_identity(
      *http_, "eu-central-1", {.arn = "r", .session_name = {}, .external_id = {}, .duration = {}}, path);
  ASSERT_TRUE(is_key(found, "W"));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].body.starts_with(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=r&RoleSessionName=codecfs-"))
      << requests_[0].body;
  EXPECT_TRUE(requests_[0].body.ends_with("&WebIdentityToken=a.b%2Fc")) << requests_[0].body;
  EXPECT_EQ(requests_[0].header("authorization"), "");

  environment_.set("AWS_WEB_IDENTITY_TOKEN_FILE", path);
  EXPECT_TRUE(is_refusal(web_identity_credentials(*http_, "x-1"), {"AWS_ROLE_ARN is not"}));
  environment_.set("AWS_ROLE_ARN", "role");
  environment_.set("AWS_ROLE_SESSION_NAME", "session");
  EXPECT_TRUE(is_key(web_identity_credentials(*http_, "x-1"), "W"));
  EXPECT_TRUE(requests_.back().body.contains("RoleArn=role&RoleSessionName=session&")) << requests_.back().body;
  // The file is read each time.
  (void)write("token", "new");
  EXPECT_TRUE(is_key(web_identity_credentials(*http_, "x-1"), "W"));
  EXPECT_TRUE(requests_.back().body.ends_with("&WebIdentityToken=new"));
  (void)write("token", "\n");
  EXPECT_TRUE(is_refusal(web_identity_credentials(*http_, "x-1"), {"empty"}));
  environment_.set("AWS_WEB_IDENTITY_TOKEN_FILE", path + "x");
  EXPECT_FALSE(web_identity_credentials(*http_, "x-1"));
  environment_.unset("AWS_WEB_IDENTITY_TOKEN_FILE");
  EXPECT_EQ(web_identity_credentials(*http_, "x-1").value(), std::nullopt);
}

TEST_F(Sts, RefusalsHaveCodeAndMessageButNoSecrets) {
  const auto ask = [&] {
    return assume_role(*http_, "eu-central-1",
                       {.arn = "arn:r", .session_name = {}, .external_id = "EXTERNAL", .duration = {}}, kSource);
  };
  const auto answer = [](const std::string& code, const std::string& message) {
    return http_answer(403, "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>" + message +
                                "</Message></Error><RequestId>1</RequestId></ErrorResponse>");
  };
  answer_ = answer("AccessDenied", "User x may not sts:AssumeRole\n&#x85;");
  EXPECT_TRUE(is_refusal(ask(), {"the role 'arn:r' (STS at " + server_.url() +
                                 ") is refused: AccessDenied: User x may "
                                 "not sts:AssumeRole"}));
  EXPECT_EQ(ask().error().reason.find('\n'), std::string::npos);
  for (const std::string secret : {"SECRET/1", "TOKEN/2", "TOKEN%2F2", "EXTERNAL"}) {
    answer_ = answer("AccessDenied", "You sent " + secret);
    const auto found = ask();
    EXPECT_TRUE(is_refusal(found, {"refused: AccessDenied"}));
    EXPECT_FALSE(found.error().reason.contains("You sent")) << found.error().reason;
  }
  answer_ = answer("AccessDenied", std::string(100000, 'x'));
  EXPECT_LT(ask().error().reason.size(), 600u);
  answer_ = http_answer(403, "<!DOCTYPE html><html/>");
  EXPECT_TRUE(is_refusal(ask(), {"refused: status 403"}));
  answer_ = http_answer(302, "", {{"Location", server_.url() + "/other"}});
  EXPECT_TRUE(is_refusal(ask(), {"status 302"}));
}

TEST_F(Sts, AnswersWithoutCredentials) {
  for (const std::string& answer :
       {http_answer(200), http_answer(200, "{}"), http_answer(200, "<AssumeRoleResponse/>"),
        sts_answer("Other", "A", kFarFuture), sts_answer("AssumeRole", "A", ""),
        sts_answer("AssumeRole", "", kFarFuture), sts_answer("AssumeRole", "A", "2000-01-01T00:00:00Z"),
        sts_answer("AssumeRole", "A b", kFarFuture)}) {
    answer_ = answer;
    EXPECT_TRUE(is_refusal(assume_role(*http_, "eu-central-1",
                                       {.arn = "r", .session_name = {}, .external_id = {}, .duration = {}}, kSource),
                           {"the role 'r' (STS at "}))
        << answer;
  }
}

TEST_F(Sts, Endpoints) {
  const Role role{.arn = "r", .session_name = {}, .external_id = {}, .duration = {}};
  answer_ = sts_answer("AssumeRole", "A", kFarFuture);
  environment_.set("AWS_ENDPOINT_URL_STS", server_.url() + "/sts/");
  EXPECT_TRUE(is_key(assume_role(*http_, "x", role, kSource), "A"));
  EXPECT_EQ(requests_.back().target, "/sts/");
  environment_.unset("AWS_ENDPOINT_URL_STS");
  environment_.set("AWS_ENDPOINT_URL", server_.url());
  EXPECT_TRUE(is_key(assume_role(*http_, "x", role, kSource), "A"));
  environment_.set("AWS_ENDPOINT_URL", "file:///etc/passwd");
  EXPECT_FALSE(assume_role(*http_, "x", role, kSource));
  environment_.unset("AWS_ENDPOINT_URL");
  EXPECT_EQ(assume_role(*http_, "evil.example/", role, kSource).error().code, EINVAL);
}

}  // namespace
}  // namespace codecfs::remote
