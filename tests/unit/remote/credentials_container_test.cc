#include <gtest/gtest.h>

#include <string>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

class Container : public CredentialTest {
 protected:
  ServedRequest last_;
  std::string answer_ = json_answer("C", kFarFuture);
  HttpServer server_{[this](const ServedRequest& request) {
    last_ = request;
    return answer_;
  }};
};

TEST_F(Container, NotSetUp) { EXPECT_EQ(container_credentials(*http_).value(), std::nullopt); }

TEST_F(Container, AsksTheAgent) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/creds?id=1");
  const auto found = container_credentials(*http_);
  ASSERT_TRUE(is_key(found, "C"));
  EXPECT_EQ((*found)->session_token, "token-C");
  EXPECT_TRUE((*found)->expires);
  EXPECT_EQ(last_.method, "GET");
  EXPECT_EQ(last_.target, "/creds?id=1");
  EXPECT_EQ(last_.headers.count("authorization"), 0u);
}

TEST_F(Container, Authorization) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url());
  environment_.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc");
  ASSERT_TRUE(is_key(container_credentials(*http_), "C"));
  EXPECT_EQ(last_.header("authorization"), "Basic abc");
  environment_.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", write("token", "one\n"));
  ASSERT_TRUE(is_key(container_credentials(*http_), "C"));
  EXPECT_EQ(last_.header("authorization"), "one");
  (void)write("token", "two");
  ASSERT_TRUE(is_key(container_credentials(*http_), "C"));
  EXPECT_EQ(last_.header("authorization"), "two");
  (void)write("token", "SECRET\r\nX-Other: y");
  const auto refused = container_credentials(*http_);
  EXPECT_TRUE(is_refusal(refused, {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}));
  EXPECT_FALSE(refused.error().reason.contains("SECRET"));
  environment_.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/does/not/exist");
  EXPECT_FALSE(container_credentials(*http_)) << "the request is not made without the token";
}

TEST_F(Container, OnlyAgentsGetTheTokenUnencrypted) {
  environment_.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "SECRET");
  for (const char* uri :
       {"http://192.0.2.1/", "http://169.254.170.3/", "http://169.254.169.254/", "http://example.org/",
        "http://127.0.0.1@192.0.2.1/", "http://localhost.example.org/", "http://[fd00:ec2::24]/", "http://[::2]/",
        "ftp://127.0.0.1/", "file:///etc/passwd", "127.0.0.1/x", "http://", "x"}) {
    environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri);
    EXPECT_TRUE(is_refusal(container_credentials(*http_), {"AWS_CONTAINER_CREDENTIALS_FULL_URI "})) << uri;
  }
  // These may be asked; nothing answers there.
  for (const char* uri : {"http://127.0.0.1:1/", "http://127.1.2.3:1/", "http://localhost:1/", "http://[::1]:1/",
                          "https://127.0.0.1:1/"}) {
    environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri);
    EXPECT_TRUE(is_refusal(container_credentials(*http_), {"the container's credentials at "})) << uri;
  }
  EXPECT_EQ(server_.requests(), 0u);
}

TEST_F(Container, RelativePaths) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.org/");
  EXPECT_TRUE(is_refusal(container_credentials(*http_), {"must begin with '/'"}));
}

TEST_F(Container, Failures) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url());
  for (const auto& [answer, reason] :
       std::map<std::string, std::string>{{http_answer(404, "SECRET"), "refused (status 404)"},
                                          {http_answer(200, "SECRET"), "not a JSON object"},
                                          {json_answer("", kFarFuture), "missing"},
                                          {json_answer("A", "2000-01-01T00:00:00Z"), "expired"}}) {
    answer_ = answer;
    const auto found = container_credentials(*http_);
    EXPECT_TRUE(is_refusal(found, {reason}));
    EXPECT_FALSE(found.error().reason.contains("SECRET"));
  }
}

}  // namespace
}  // namespace codecfs::remote
