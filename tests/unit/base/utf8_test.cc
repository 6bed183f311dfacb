// UTF-8: what is valid, by the table of RFC 3629.

#include "base/utf8.h"

#include <gtest/gtest.h>

namespace codecfs {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, code_point);
    ASSERT_EQ(utf8_length(text), text.size());
    ASSERT_EQ(utf8_decode(text), code_point);
    // Truncated, it is invalid.
    ASSERT_EQ(utf8_length(std::string_view(text).substr(0, text.size() - 1)), 0U);
  }
}

TEST(Utf8, RefusesWhatIsNoCharacter) {
  for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "a\xE2\x28\xA1"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(Utf8, WhereverItIsInALongText) {
  for (size_t size = 1; size < 40; ++size) {
    const std::string ascii(size, 'a');
    EXPECT_TRUE(is_utf8(ascii));
    for (size_t place = 0; place < size; ++place) {
      std::string text = ascii;
      text[place] = '\xfc';
      EXPECT_FALSE(is_utf8(text)) << size << " " << place;
      EXPECT_TRUE(is_utf8(std::string(ascii).replace(place, 1, "\u00fc\u20ac"))) << size << " " << place;
    }
  }
}

TEST(Utf8, WhatIsNoCodePointIsReplaced) {
  std::string text;
  utf8_append(text, 0xD800);
  utf8_append(text, 0x110000);
  EXPECT_EQ(text, "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace codecfs
