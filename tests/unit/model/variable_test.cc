// Chunks of fill.

#include <gtest/gtest.h>

#include "model/json.h"
#include "model/variable.h"

namespace codecfs {
namespace {

Variable make(const char* dtype, std::vector<std::byte> fill, std::vector<uint64_t> chunks) {
  Variable variable;
  variable.type = *parse_dtype(dtype);
  variable.grid = *ChunkGrid::make(chunks, chunks);
  variable.fill = std::move(fill);
  return variable;
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

TEST(FillChunk, RepeatsTheElement) {
  const auto chunk = make_fill_chunk(make("|V3", bytes({1, 2, 3}), {7, 5}));
  ASSERT_TRUE(chunk);
  ASSERT_EQ(chunk->size(), 105U);
  for (size_t i = 0; i < 105; ++i) EXPECT_EQ(chunk->data()[i], static_cast<std::byte>(i % 3 + 1));
}

TEST(FillChunk, OfZeros) {
  for (const std::vector<std::byte>& fill : {std::vector<std::byte>(8), std::vector<std::byte>()}) {
    const auto chunk = make_fill_chunk(make("<f8", fill, {100}));
    ASSERT_TRUE(chunk);
    EXPECT_EQ(std::vector(chunk->bytes().begin(), chunk->bytes().end()), std::vector<std::byte>(800));
  }
}

TEST(FillChunk, OfStringsHasACountAndLengths) {
  // numcodecs.VLenUTF8().encode(np.array(["ab"] * 3, dtype=object)).hex()
  Variable variable = make("|O", bytes({2, 0, 0, 0, 'a', 'b'}), {3});
  variable.object_codec = Json{{"id", "vlen-utf8"}};
  const auto chunk = make_fill_chunk(variable);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(std::vector(chunk->bytes().begin(), chunk->bytes().end()),
            bytes({3, 0, 0, 0, 2, 0, 0, 0, 'a', 'b', 2, 0, 0, 0, 'a', 'b', 2, 0, 0, 0, 'a', 'b'}));
  variable.fill.clear();
  EXPECT_EQ(make_fill_chunk(variable)->size(), 16U);
}

TEST(FillChunk, RefusesWhatCannotBeMade) {
  Variable objects = make("|O", {}, {3});
  EXPECT_EQ(make_fill_chunk(objects).error().code, EOPNOTSUPP);
  objects.object_codec = Json{{"id", "pickle"}};
  EXPECT_EQ(make_fill_chunk(objects).error().code, EOPNOTSUPP);
  EXPECT_EQ(make_fill_chunk(make("<i4", bytes({1}), {3})).error().code, EINVAL);
  EXPECT_EQ(make_fill_chunk(make("<f8", std::vector<std::byte>(8), {uint64_t{1} << 60})).error().code, ENOMEM);
  EXPECT_EQ(make_fill_chunk(make("<f8", std::vector<std::byte>(8), {uint64_t{1} << 61 >> 1})).error().code, ENOMEM);
}

}  // namespace
}  // namespace codecfs
