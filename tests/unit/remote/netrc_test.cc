#include "remote/netrc.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace codecfs::remote {
namespace {

std::string shown(std::string_view text) {
  const auto logins = parse_netrc(text, "/n");
  if (!logins) return logins.error().reason;
  std::string all;
  for (const auto& [host, login] : *logins) all += host + " " + login.user + " " + login.password + "\n";
  return all;
}

TEST(Netrc, Logins) {
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("machine urs.earthdata.nasa.gov login u password p"), "urs.earthdata.nasa.gov u p\n");
  EXPECT_EQ(shown("machine A.Example.org\n\tlogin u\n\taccount x\n\tpassword p#q\n"
                  "machine b login v password w\r\n# machine c login x password y\n"),
            "a.example.org u p#q\nb v w\n");
}

TEST(Netrc, CommentsAndUnknownWords) {
  EXPECT_EQ(shown("# machine x login y password z\nmachine a # b\n  login u\n\t# password q\n password #p\n"),
            "a u #p\n");
  EXPECT_EQ(shown("machine a login u port 21 password p unknown\nsecure"), "a u p\n");
}

TEST(Netrc, Quotes) {
  EXPECT_EQ(shown(R"(machine a login "u v" password "p\"q\\r\n" machine b login "" password x)"),
            "a u v p\"q\\r\n\nb  x\n");
}

TEST(Netrc, MacrosAreSkipped) {
  EXPECT_EQ(shown("machine a login u password p\nmacdef init\nmachine b login v password w\nbye\n\n"
                  "machine c login x password y\n"),
            "a u p\nc x y\n");
  EXPECT_EQ(shown("macdef init\nmachine b"), "");
}

TEST(Netrc, TheFirstCompleteLoginOfAHostCounts) {
  EXPECT_EQ(shown("machine a login u machine a login v password w machine a login x password y"), "a v w\n");
}

TEST(Netrc, TheLoginForAllHostsIsIgnored) {
  EXPECT_EQ(shown("machine a login u password p\ndefault login anonymous password secret\n"), "a u p\n");
}

TEST(Netrc, MalformedFilesAreRefusedWithoutTheirContent) {
  for (const char* const text :
       {"machine a login SECRET password", "machine", "machine a login \"SECRET", "machine a login \"SECRET\n\""}) {
    const auto refused = parse_netrc(text, "/the/file");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_NE(refused.error().reason.find("/the/file"), std::string::npos);
    EXPECT_EQ(refused.error().reason.find("SECRET"), std::string::npos);
  }
}

}  // namespace
}  // namespace codecfs::remote
