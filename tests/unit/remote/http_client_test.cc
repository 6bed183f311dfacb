#include "remote/http_client.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

TEST(HttpClient, EncodesWhatAwsSigns) {
  EXPECT_EQ(percent_encode("a/b c+d(é)~", true), "a/b%20c%2Bd%28%C3%A9%29~");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
}

TEST(HttpClient, NamesTheHostWithoutSecrets) {
  EXPECT_EQ(host_of("https://user:secret@example.org:8080/a/b?signature=secret"), "https://example.org:8080");
  EXPECT_EQ(host_of("http://example.org?token=secret@x"), "http://example.org");
}

TEST(HttpClient, SaysThatAHostRefuses) {
  const auto client = HttpClient::start(2).value();
  const auto response = client->perform({.url = "http://127.0.0.1:1/x?secret"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ECONNREFUSED);
  EXPECT_EQ(response.error().reason.find("secret"), std::string::npos);
}

TEST(HttpClient, RefusesOtherProtocols) {
  const auto client = HttpClient::start(2).value();
  EXPECT_EQ(client->perform({.url = "file:///etc/passwd"}).error().code, EPROTO);
}

}  // namespace
}  // namespace codecfs::remote
