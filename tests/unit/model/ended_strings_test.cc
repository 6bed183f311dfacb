#include "model/ended_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace codecfs {
namespace {

struct Elements {
  explicit Elements(std::string_view text) : bytes(text.size()) {
    std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin());
  }
  [[nodiscard]] std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  std::vector<std::byte> bytes;
};

using std::string_literals::operator""s;

TEST(EndedStrings, NothingIsLeftBehindTheEnd) {
  const std::vector<EndedString> whole = {{0, 4}};
  Elements clean("ab\0\0abcd\0\0\0\0d\0\0\0"s);
  EXPECT_FALSE(has_bytes_behind_ends(whole, 4, clean.bytes));
  Elements dirty("ab\0xabcd\0xy\0d\0\0z"s);
  EXPECT_TRUE(has_bytes_behind_ends(whole, 4, dirty.bytes));
  clear_behind_ends(whole, 4, dirty.bytes);
  EXPECT_EQ(dirty.text(), "ab\0\0abcd\0\0\0\0d\0\0\0"s);
}

TEST(EndedStrings, OtherMembersStay) {
  const std::vector<EndedString> strings = {{1, 3}, {5, 2}};
  Elements elements("\0a\0b\0\0c|\0abcd\0\0|"s);
  EXPECT_TRUE(has_bytes_behind_ends(strings, 8, elements.bytes));
  clear_behind_ends(strings, 8, elements.bytes);
  EXPECT_EQ(elements.text(), "\0a\0\0\0\0\0|\0abcd\0\0|"s);
  EXPECT_FALSE(has_bytes_behind_ends(strings, 8, elements.bytes));
  EXPECT_FALSE(has_bytes_behind_ends({}, 8, elements.bytes));
}

/// The two ways to search find the same, at all sizes and places.
TEST(EndedStrings, SearchesAgree) {
  std::mt19937 random(5);
  for (uint64_t size = 2; size < 40; ++size) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::byte> bytes(size * (1 + random() % 60), std::byte{1});
      for (uint64_t i = 0; i < bytes.size(); i += size) {
        const uint64_t length = random() % (size + 1);
        std::fill(bytes.begin() + static_cast<ptrdiff_t>(i + length), bytes.begin() + static_cast<ptrdiff_t>(i + size),
                  std::byte{0});
      }
      const std::vector<EndedString> one = {{0, size}};
      const std::vector<EndedString> twice = {{0, size}, {0, size}};
      EXPECT_FALSE(has_bytes_behind_ends(one, size, bytes));
      EXPECT_FALSE(has_bytes_behind_ends(twice, size, bytes));
      bytes[random() % bytes.size()] = std::byte{2};
      EXPECT_EQ(has_bytes_behind_ends(one, size, bytes), has_bytes_behind_ends(twice, size, bytes));
    }
  }
}

}  // namespace
}  // namespace codecfs
