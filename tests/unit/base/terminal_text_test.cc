// What reaches a terminal, and how wide it is there.

#include "base/terminal_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"

namespace codecfs {
namespace {

using std::string_literals::operator""s;

TEST(TerminalText, OrdinaryTextStays) {
  for (const std::string text : {"", "abc", "naïve", "温度 (K)", "😀", "a/b.0", "e\u0301"})
    EXPECT_EQ(printable(text), text);
}

TEST(TerminalText, ControlCharactersAreReplaced) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a?[31mb");
  EXPECT_EQ(printable("a\0b\x7f"s), "a?b?");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a b c d");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31mb"),
            "a?31mb");  // C1: CSI
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b\xe2\x81\xa6"
                      "c"),
            "a?b?c");  // right-to-left override, isolate
  EXPECT_EQ(printable("a\xe2\x80\xa8"
                      "b"),
            "a?b");  // line separator
  EXPECT_EQ(printable("a\x9b"
                      "b\xff"),
            "a\uFFFD"
            "b\uFFFD");  // no UTF-8: on some terminals CSI
}

TEST(TerminalText, AnyBytesBecomeOneLineOfUtf8) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string text = printable(bytes);
    ASSERT_TRUE(is_utf8(text));
    for (const char c : text) ASSERT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7F);
    ASSERT_EQ(printable(text), text);
  }
}

TEST(TerminalText, Columns) {
  EXPECT_EQ(columns_of(""), 0U);
  EXPECT_EQ(columns_of("naïve"), 5U);
  EXPECT_EQ(columns_of("温度"), 4U);
  EXPECT_EQ(columns_of("e\u0301"), 1U);
  EXPECT_EQ(columns_of("├─ v"), 4U);
  EXPECT_EQ(columns_of("😀"), 2U);
}

TEST(TerminalText, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to("abc", 3), "abc");
  EXPECT_EQ(cut_to("abcd", 3), "ab…");
  EXPECT_EQ(cut_to("温度温度", 4), "温…");
  EXPECT_EQ(cut_to("温度温度", 5), "温度…");
  EXPECT_EQ(cut_to("e\u0301e\u0301e\u0301", 2), "e\u0301…");
  EXPECT_EQ(cut_to("abc", 0), "…");
}

TEST(TerminalText, WrapsAtSpaces) {
  EXPECT_EQ(wrap_to("one two three", 0, "  "), "one two three");
  EXPECT_EQ(wrap_to("one two three", 7, "  "), "one two\n  three");
  EXPECT_EQ(wrap_to("one two three", 8, "  "), "one two\n  three");
  EXPECT_EQ(wrap_to("  one two", 5, "  "), "  one\n  two");
  EXPECT_EQ(wrap_to("abcdefgh", 4, " "), "abcd\n efg\n h");
  EXPECT_EQ(wrap_to("", 4, " "), "");
  EXPECT_EQ(wrap_to("   abcdefgh", 5, "   "), "   ab\n   cd\n   ef\n   gh");
}

TEST(TerminalText, WrappedLinesFitAndLoseNothing) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += random() % 5 == 0 ? " " : random() % 7 == 0 ? "温" : "x";
    const size_t columns = 4 + random() % 20;
    const std::string lines = wrap_to(text, columns, "  ");
    std::string words;
    for (size_t from = 0; from <= lines.size();) {
      const size_t end = std::min(lines.find('\n', from), lines.size());
      ASSERT_LE(columns_of(lines.substr(from, end - from)), columns) << text << "\n" << lines;
      from = end + 1;
    }
    for (const char c : lines)
      if (c != ' ' && c != '\n') words += c;
    std::erase(text, ' ');
    ASSERT_EQ(words, text);
  }
}

}  // namespace
}  // namespace codecfs
