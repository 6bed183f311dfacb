// Orders of axes, against the definition: element (i0, .., in) of the result is the element of the input with these
// coordinates at their axes.

#include "backends/zarr/source/transpose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace codecfs::zarr {
namespace {

using Shape = std::vector<uint64_t>;

/// The place of each element in Fortran order, listed in C order.
std::vector<size_t> fortran_places(const Shape& shape) {
  size_t count = 1;
  for (const uint64_t length : shape) count *= length;
  std::vector<size_t> places;
  for (size_t number = 0; number < count; ++number) {
    std::vector<uint64_t> at(shape.size());
    size_t rest = number;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) at[i] = rest % shape[i];
    size_t place = 0;
    for (size_t i = shape.size(); i-- > 0;) place = place * shape[i] + at[i];
    places.push_back(place);
  }
  return places;
}

/// Fortran order of this shape is C order of the reversed one, whose axes are reversed again.
std::vector<size_t> reversed_axes(const Shape& shape) {
  std::vector<size_t> order;
  for (size_t axis = shape.size(); axis-- > 0;) order.push_back(axis);
  return order;
}

Shape reversed(const Shape& shape) { return {shape.rbegin(), shape.rend()}; }

const Shape kShapes[] = {{},
                         {1},
                         {5},
                         {2, 3},
                         {1, 7},
                         {7, 1},
                         {33, 65},
                         {4, 1, 5},
                         {3, 4, 5},
                         {2, 3, 4, 5},
                         {1, 2, 1, 3, 1},
                         {40, 2, 70},
                         {2, 2, 2, 2, 2, 2},
                         {100, 3}};

TEST(Transpose, EveryShapeAndSize) {
  for (const Shape& shape : kShapes)
    for (const size_t size : {1U, 2U, 3U, 4U, 8U, 12U, 16U, 20U}) {
      const auto places = fortran_places(shape);
      std::vector<std::byte> chunk(places.size() * size);
      for (size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>(i * 31 + i / 256);
      const auto result = transpose(chunk, reversed(shape), reversed_axes(shape), size);
      ASSERT_TRUE(result);
      ASSERT_EQ(result->size(), chunk.size());
      for (size_t i = 0; i < places.size(); ++i)
        ASSERT_EQ(std::memcmp(result->data() + i * size, chunk.data() + places[i] * size, size), 0);
    }
}

std::vector<std::byte> items(const std::vector<std::string>& texts) {
  std::vector<std::byte> chunk(4);
  store_le(chunk.data(), static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) {
    std::byte length[4];
    store_le(length, static_cast<uint32_t>(text.size()));
    chunk.insert(chunk.end(), length, length + 4);
    for (const char c : text) chunk.push_back(static_cast<std::byte>(c));
  }
  return chunk;
}

TEST(Transpose, ItemsOfVariableLength) {
  for (const Shape& shape : kShapes) {
    const auto places = fortran_places(shape);
    std::vector<std::string> stored(places.size());
    for (size_t i = 0; i < stored.size(); ++i) stored[i] = std::string(i % 5, 'x') + std::to_string(i);
    std::vector<std::string> expected;
    for (const size_t place : places) expected.push_back(stored[place]);
    const auto result = transpose_items(items(stored), reversed(shape), reversed_axes(shape));
    ASSERT_TRUE(result);
    EXPECT_EQ(std::vector(result->bytes().begin(), result->bytes().end()), items(expected));
  }
}

TEST(Transpose, DamagedItemsAreErrors) {
  const Shape shape = {2, 2};
  const std::vector<size_t> order = {1, 0};
  const auto good = items({"a", "bb", "", "cccc"});
  ASSERT_TRUE(transpose_items(good, shape, order));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(transpose_items(Bytes(good).first(size), shape, order).error().code, EIO) << size;
  auto longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(transpose_items(longer, shape, order));
  auto huge = good;
  store_le(huge.data() + 4, uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(transpose_items(huge, shape, order));
  EXPECT_FALSE(transpose_items(good, Shape{3, 2}, order));
  EXPECT_FALSE(transpose_items(good, Shape{uint64_t{1} << 31, 2}, order));
}

/// The input's place of each element of the result.
std::vector<size_t> places_of(const Shape& shape, const std::vector<size_t>& order) {
  const Shape result = transposed_shape(shape, order);
  size_t count = 1;
  for (const uint64_t length : shape) count *= length;
  std::vector<size_t> places;
  for (size_t number = 0; number < count; ++number) {
    std::vector<uint64_t> at(shape.size());
    size_t rest = number;
    for (size_t i = shape.size(); i-- > 0; rest /= result[i]) at[order[i]] = rest % result[i];
    size_t place = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) place = place * shape[axis] + at[axis];
    places.push_back(place);
  }
  return places;
}

TEST(Transpose, EveryOrderOfAxesAndItsInverse) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 1, 3, 4}, Shape{40, 3, 50}, Shape{2, 3, 2, 2}}) {
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      const auto places = places_of(shape, order);
      std::vector<std::byte> chunk(places.size() * 4);
      for (size_t i = 0; i < places.size(); ++i) store_le(chunk.data() + i * 4, static_cast<uint32_t>(i));
      const auto result = transpose(chunk, shape, order, 4);
      ASSERT_TRUE(result);
      for (size_t i = 0; i < places.size(); ++i)
        ASSERT_EQ(load_le<uint32_t>(result->data() + i * 4), static_cast<uint32_t>(places[i]));
      const auto back = transpose(result->bytes(), transposed_shape(shape, order), inverse_order(order), 4);
      ASSERT_TRUE(back);
      EXPECT_EQ(std::memcmp(back->data(), chunk.data(), chunk.size()), 0);
    } while (std::ranges::next_permutation(order).found);
  }
}

}  // namespace
}  // namespace codecfs::zarr
