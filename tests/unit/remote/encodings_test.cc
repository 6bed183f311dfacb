#include "remote/encodings.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

TEST(Encodings, Base64) {
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {std::string("\0\xff", 2), "AP8="}}) {
    EXPECT_EQ(base64_encoded(bytes), text);
    EXPECT_EQ(base64_decoded(text), bytes);
  }
  for (const char* const text : {"YQ=", "YQ", "Y?==", "=", "YWJj\n"}) EXPECT_FALSE(base64_decoded(text)) << text;
}

TEST(Encodings, Hexadecimal) { EXPECT_EQ(hex_of(std::string("\0\xfe", 2)), "00fe"); }

TEST(Encodings, PercentSigns) {
  EXPECT_EQ(percent_decoded("a%2Fb%c3%A9+%zz%4"), "a/bé+%zz%4");
  EXPECT_EQ(percent_decoded("%"), "%");
}

}  // namespace
}  // namespace codecfs::remote
