#include "remote/cookies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace codecfs::remote {
namespace {

using namespace std::chrono_literals;

const Origin kHome{.scheme = "https", .host = "data.example.org", .port = "443"};
const Cookies::Time kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 29);

TEST(Cookies, GoBackToTheirServerOnly) {
  Cookies cookies;
  cookies.store(kHome, "/login", "session=a=b; Path=/; Domain=example.org; Secure; HttpOnly", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/x/y", kNow), "session=a=b");
  for (const Origin& other : {Origin{"http", "data.example.org", "443"}, Origin{"https", "data.example.org", "8443"},
                              Origin{"https", "example.org", "443"}, Origin{"https", "other.example.org", "443"}})
    EXPECT_EQ(cookies.header_for(other, "/x/y", kNow), "");
}

TEST(Cookies, Paths) {
  Cookies cookies;
  cookies.store(kHome, "/a/login", "one=1", kNow);
  cookies.store(kHome, "/a/login", "two=2; path=/a/b", kNow);
  cookies.store(kHome, "/a/login", "three=3; path=/", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/a/b/c", kNow), "two=2; one=1; three=3") << "the longest path first";
  EXPECT_EQ(cookies.header_for(kHome, "/a/bc", kNow), "one=1; three=3");
  EXPECT_EQ(cookies.header_for(kHome, "/ab", kNow), "three=3");
}

TEST(Cookies, Expire) {
  Cookies cookies;
  cookies.store(kHome, "/", "age=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", kNow);
  cookies.store(kHome, "/", "date=2; Expires=Sun, 29 Nov 2026 01:00:00 GMT", kNow);
  cookies.store(kHome, "/", "session=3", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow), "age=1; date=2; session=3");
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow + 61s), "date=2; session=3");
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow + 2h), "session=3");
  cookies.store(kHome, "/", "never=4; Expires=Fri, 31-Dec-9999 23:59:59 GMT", kNow);
  cookies.store(kHome, "/", "past=5; Expires=Thu, 01 Jan 1970 00:00:01 GMT", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow + 2h), "session=3; never=4");
  cookies.store(kHome, "/", "never=; Expires=Thu, 01 Jan 1970 00:00:01 GMT", kNow);
  cookies.store(kHome, "/", "session=; Max-Age=0", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow + 2h), "");
}

TEST(Cookies, AreReplacedByNameAndPath) {
  Cookies cookies;
  cookies.store(kHome, "/", "a=1", kNow);
  cookies.store(kHome, "/", "a=2", kNow);
  cookies.store(kHome, "/", "a=3; path=/x", kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/x", kNow), "a=3; a=2");
}

TEST(Cookies, AreLimitedAndMalformedOnesIgnored) {
  Cookies cookies;
  for (const std::string text : {"", ";", "=x", "novalue", "a=\x01", "; a=1"}) cookies.store(kHome, "/", text, kNow);
  cookies.store(kHome, "/", "long=" + std::string(Cookies::kMaxBytes, 'x'), kNow);
  EXPECT_EQ(cookies.header_for(kHome, "/", kNow), "");
  for (size_t i = 0; i < 2 * Cookies::kMaxOfOrigin; ++i)
    cookies.store(kHome, "/", "c" + std::to_string(i) + "=1", kNow);
  const std::string header = cookies.header_for(kHome, "/", kNow);
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(header, ';')) + 1, Cookies::kMaxOfOrigin);
  for (int i = 0; i < 1000; ++i) cookies.store({"https", "h" + std::to_string(i), "443"}, "/", "a=1", kNow);
  EXPECT_EQ(cookies.header_for({"https", "h999", "443"}, "/", kNow), "");
}

}  // namespace
}  // namespace codecfs::remote
