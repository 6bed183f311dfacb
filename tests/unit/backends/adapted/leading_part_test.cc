// A smaller chunk has the elements that numpy's chunk[:a, :b] has.

#include "backends/adapted/leading_part.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "support/memory_source.h"
#include "support/vlen_testing.h"

namespace codecfs::adapted {
namespace {

using Shape = std::vector<uint64_t>;

std::string taken(const Result<Buffer>& part) {
  if (!part) return "error " + std::to_string(part.error().code);
  return text_of(part->bytes());
}
std::string part(std::string_view chunk, const Shape& chunks, const Shape& wanted, uint64_t size = 1) {
  return taken(leading_part(bytes_of(chunk), chunks, wanted, size));
}

TEST(LeadingPart, IsTheBeginningOfEachRow) {
  EXPECT_EQ(part("x", {}, {}), "x");
  EXPECT_EQ(part("abcdef", {6}, {4}), "abcd");
  EXPECT_EQ(part("abcdef", {6}, {6}), "abcdef");
  EXPECT_EQ(part("abcdef", {2, 3}, {2, 2}), "abde");
  EXPECT_EQ(part("abcdef", {2, 3}, {1, 3}), "abc");
  EXPECT_EQ(part("abcdef", {3}, {2}, 2), "abcd");
  EXPECT_EQ(part("ABCDEFGHabcdefgh", {2, 2, 4}, {2, 1, 3}), "ABCabc");
  EXPECT_EQ(part("ABCDEFGHabcdefgh", {2, 2, 4}, {1, 2, 1}), "AE");
}

TEST(LeadingPart, AChunkOfAnotherSizeIsRefused) {
  EXPECT_EQ(part("abcde", {6}, {4}), fmt::format("error {}", EIO));
  EXPECT_EQ(part("abcdefg", {6}, {4}), fmt::format("error {}", EIO));
  EXPECT_EQ(part("abc", {1}, {1}, 2), fmt::format("error {}", EIO));
}

TEST(LeadingItems, KeepTheirLengths) {
  const std::string chunk = vlen_chunk({"a", "", "ccc", "dd", "e", "ffff"});
  EXPECT_EQ(taken(leading_items(bytes_of(chunk), Shape{6}, Shape{2})), vlen_chunk({"a", ""}));
  EXPECT_EQ(taken(leading_items(bytes_of(chunk), Shape{2, 3}, Shape{2, 2})), vlen_chunk({"a", "", "dd", "e"}));
  EXPECT_EQ(taken(leading_items(bytes_of(chunk), Shape{2, 3}, Shape{2, 3})), chunk);
}

TEST(LeadingItems, DamagedChunksAreRefused) {
  const std::string chunk = vlen_chunk({"a", "bb"});
  for (size_t size = 0; size < chunk.size(); ++size)
    EXPECT_EQ(taken(leading_items(bytes_of(chunk).first(size), Shape{2}, Shape{1})), fmt::format("error {}", EIO))
        << size;
  EXPECT_EQ(taken(leading_items(bytes_of(chunk), Shape{3}, Shape{1})), fmt::format("error {}", EIO));
  const std::string huge("\xff\xff\xff\xff\0\0\0\0", 8);
  EXPECT_EQ(taken(leading_items(bytes_of(huge), Shape{UINT32_MAX}, Shape{1})), fmt::format("error {}", EIO));
}

}  // namespace
}  // namespace codecfs::adapted
