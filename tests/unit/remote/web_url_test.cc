#include "remote/web_url.h"

#include <gtest/gtest.h>

#include <string>

namespace codecfs::remote {
namespace {

TEST(WebUrl, Origins) {
  EXPECT_EQ(origin_of("https://Data.Example.org/a?b#c").value(), (Origin{"https", "data.example.org", "443"}));
  EXPECT_EQ(origin_of("https://data.example.org:443/").value(), origin_of("https://data.example.org").value());
  EXPECT_EQ(origin_of("http://[::1]:80").value(), (Origin{"http", "[::1]", "80"}));
  EXPECT_NE(origin_of("https://a:8443").value(), origin_of("https://a").value());
  // A client that took "trusted" for the host would send it the login of another one.
  EXPECT_EQ(origin_of("https://trusted@evil.example.org/").value().host, "evil.example.org");
  EXPECT_EQ(origin_of("https://a").value().shown(), "https://a");
  EXPECT_EQ(origin_of("http://a:8080").value().shown(), "http://a:8080");
  for (const char* const text : {"ftp://a/", "https://", "a", "", "file:///etc/passwd"})
    EXPECT_FALSE(origin_of(text)) << text;
}

TEST(WebUrl, WhatOthersCannotRead) {
  for (const char* const url :
       {"https://a.org", "http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:8", "http://[::1]/"})
    EXPECT_TRUE(origin_of(url).value().is_private()) << url;
  for (const char* const url :
       {"http://a.org", "http://128.0.0.1", "http://127.0.0.1.example.org", "http://localhost.example.org"})
    EXPECT_FALSE(origin_of(url).value().is_private()) << url;
}

TEST(WebUrl, Redirections) {
  const std::string url = "https://a.org/x/y?q=1";
  EXPECT_EQ(resolve_url(url, "https://b.org/z?code=1").value(), "https://b.org/z?code=1");
  EXPECT_EQ(resolve_url(url, "//b.org/z").value(), "https://b.org/z");
  EXPECT_EQ(resolve_url(url, "/z w").value(), "https://a.org/z%20w");
  EXPECT_EQ(resolve_url(url, "z").value(), "https://a.org/x/z");
  EXPECT_EQ(resolve_url(url, "https://user:secret@b.org/z#part").value(), "https://b.org/z");
  for (const char* const location : {"ftp://b.org/secret", "file:///secret", "gopher://b.org/secret"}) {
    const auto refused = resolve_url(url, location);
    ASSERT_FALSE(refused) << location;
    EXPECT_EQ(refused.error().code, EPROTO);
    EXPECT_EQ(refused.error().reason.find("secret"), std::string::npos);
  }
}

TEST(WebUrl, Paths) {
  EXPECT_EQ(path_of("https://a.org/x/../y?q"), "/x/../y");
  EXPECT_EQ(path_of("https://a.org"), "/");
}

}  // namespace
}  // namespace codecfs::remote
