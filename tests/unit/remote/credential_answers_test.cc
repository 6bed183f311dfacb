#include "remote/credential_answers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

using namespace std::chrono_literals;

TEST(ParseExpiration, Forms) {
  const auto expected = std::chrono::sys_days(2026y / 11 / 24) + 2h + 23min + 47s;
  for (const char* text : {"2026-11-24T02:23:47Z", "2026-11-24T02:23:47.123456Z", "2026-11-24T02:23:47",
                           "2026-11-24 02:23:47+00:00", "2026-11-24T03:23:47+01:00", "2026-11-23T21:53:47-0430"}) {
    EXPECT_EQ(parse_expiration(text), expected) << text;
  }
}

TEST(ParseExpiration, Malformed) {
  for (const char* text : {"", "2026", "2026-11-24", "2026-11-24T02:23", "2026-02-30T02:23:47Z", "2026-13-01T02:23:47Z",
                           "2026-11-24T24:23:47Z", "2026-11-24T02:60:47Z", "2026-11-24T02:23:47X",
                           "2026-11-24T02:23:47.Z", "2026-11-24T02:23:47Zx", "2026-11-24T02:23:47+1",
                           "-026-11-24T02:23:47Z", "2026-11-24T02:23:47+01:00:00", "1795487027"}) {
    EXPECT_EQ(parse_expiration(text), std::nullopt) << text;
  }
}

TEST(ParseCredentials, Complete) {
  const auto found = parse_credentials(
      R"({"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2099-01-02T03:04:05Z"})", "Token",
      "x");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->access_key, "a");
  EXPECT_EQ(found->secret_key, "b");
  EXPECT_EQ(found->session_token, "c");
  EXPECT_EQ(found->expires, parse_expiration(kFarFuture));
  const auto static_keys = parse_credentials(R"({"AccessKeyId": "a", "SecretAccessKey": "b"})", "Token", "x");
  ASSERT_TRUE(static_keys);
  EXPECT_EQ(static_keys->expires, std::nullopt);
}

TEST(ParseCredentials, ErrorsShowNoSecrets) {
  for (const char* json :
       {"SECRET", R"({"AccessKeyId": "SECRET)", R"(["SECRET"])", R"({"AccessKeyId": "SECRET"})",
        R"({"AccessKeyId": "SECRET", "SecretAccessKey": 1})",
        R"({"AccessKeyId": "a", "SecretAccessKey": "SECRET\r\nx: y"})",
        R"({"AccessKeyId": "a b", "SecretAccessKey": "SECRET"})",
        R"({"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "SECRET\n"})",
        R"({"AccessKeyId": "a", "SecretAccessKey": "SECRET", "Expiration": "SECRET"})",
        R"({"AccessKeyId": "a", "SecretAccessKey": "SECRET", "Expiration": "2000-01-01T00:00:00Z"})"}) {
    const auto found = parse_credentials(json, "Token", "the place");
    EXPECT_TRUE(is_refusal(found, {"the place: "})) << json;
    EXPECT_FALSE(found || found.error().reason.contains("SECRET")) << found.error().reason;
  }
}

class RequestCredentials : public CredentialTest {};

TEST_F(RequestCredentials, RepeatsWhatMayPass) {
  int count = 0;
  std::string failure;
  HttpServer server([&](const ServedRequest&) { return ++count < 3 ? failure : http_answer(200, "x"); });
  HttpRequest request;
  request.url = server.url();
  for (const std::string& answer : {http_answer(500), http_answer(429),
                                    http_answer(400, "<E><Error><Code>Throttling</Code></Error></E>"), std::string()}) {
    failure = answer;
    count = 0;
    const auto response = request_credentials(*http_, request, 3);
    ASSERT_TRUE(response) << response.error().reason;
    EXPECT_EQ(response->status, 200) << answer;
    EXPECT_EQ(count, 3);
  }
  failure = http_answer(500);
  count = -5;
  EXPECT_EQ(request_credentials(*http_, request, 2)->status, 500);
  EXPECT_EQ(count, -3);
  failure = http_answer(403);
  count = 0;
  EXPECT_EQ(request_credentials(*http_, request, 3)->status, 403);
  EXPECT_EQ(count, 1);
}

TEST(CredentialAnswers, ATimeThatTheClockDoesNotHaveIsFarAway) {
  EXPECT_GT(parse_expiration("9999-12-31T23:59:59Z"), std::chrono::sys_days(std::chrono::year(2199) / 1 / 1));
  EXPECT_LT(parse_expiration("0001-01-01T00:00:00Z"), std::chrono::sys_days(std::chrono::year(1971) / 1 / 2));
}

TEST(CredentialAnswers, Earthdata) {
  const auto good = parse_earthdata_credentials(
      R"({"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T", "expiration": "2099-01-02 03:04:05+00:00"})",
      "x");
  ASSERT_TRUE(good) << good.error().reason;
  EXPECT_EQ(good->access_key, "A");
  EXPECT_EQ(good->secret_key, "S");
  EXPECT_EQ(good->session_token, "T");
  EXPECT_EQ(good->expires, std::chrono::sys_days(std::chrono::year(2099) / 1 / 2) + std::chrono::hours(3) +
                               std::chrono::minutes(4) + std::chrono::seconds(5));
  for (const char* const text :
       {R"({"AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2099-01-02T03:04:05Z"})",
        R"({"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T"})",
        R"({"accessKeyId": "A", "secretAccessKey": "S", "expiration": "2099-01-02 03:04:05+00:00"})",
        R"({"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T", "expiration": "tomorrow"})"})
    EXPECT_EQ(parse_earthdata_credentials(text, "x").error().code, EACCES) << text;
}

}  // namespace
}  // namespace codecfs::remote
