// What must be stored of a chunk at the edge of an array, and what the rest of it is.

#include "backends/hdf5/source/chunk_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace codecfs::hdf5 {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(ChunkLayout, AChunkIsNeededUpToItsLastElementInTheArray) {
  const auto line = ChunkGrid::make({14}, {6});
  ASSERT_TRUE(line);
  EXPECT_EQ(needed_bytes(*line, 0, 4), 24);
  EXPECT_EQ(needed_bytes(*line, 2, 4), 8);
  const auto plane = ChunkGrid::make({7, 9}, {4, 5});
  ASSERT_TRUE(plane);
  EXPECT_EQ(needed_bytes(*plane, 0, 1), 20);
  EXPECT_EQ(needed_bytes(*plane, 1, 1), 19) << "rows of a chunk are whole";
  EXPECT_EQ(needed_bytes(*plane, 2, 1), 15);
  EXPECT_EQ(needed_bytes(*plane, 3, 1), 14);
  EXPECT_EQ(needed_bytes(*plane, std::vector<uint64_t>{0, 3}, 1), 0);
  const auto scalar = ChunkGrid::make({}, {});
  ASSERT_TRUE(scalar);
  EXPECT_EQ(needed_bytes(*scalar, 0, 8), 8);
}

TEST(ChunkLayout, TheRestIsFill) {
  const auto padded = [](std::string_view stored, uint64_t bytes) {
    auto made = pad_chunk(*Buffer::copy_of(bytes_of(stored)), bytes, bytes_of("xyz"));
    return std::string(reinterpret_cast<const char*>(made->data()), made->size());
  };
  EXPECT_EQ(padded("abcdef", 6), "abcdef");
  EXPECT_EQ(padded("abc", 9), "abcxyzxyz");
  EXPECT_EQ(padded("abcd", 9), "abcxyzxyz") << "a part of an element is none";
  EXPECT_EQ(padded("", 3), "xyz");
}

}  // namespace
}  // namespace codecfs::hdf5
