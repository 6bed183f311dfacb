// Which ranges are begun to be read ahead of the reader of an array in one file.

#include "fs/views/array_ahead.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace codecfs::fs {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kRow = 2 * kMebibyte;  // four chunks side by side

ArrayFile array_of_rows(uint64_t rows) {
  auto variable = std::make_shared<Variable>();
  variable->type = {TypeKind::raw, ByteOrder::none, 1, {}, {}};
  variable->grid = *ChunkGrid::make({rows, 1024, 2048}, {1, 512, 1024});
  variable->chunk_bytes = variable->grid.elements_per_chunk();
  variable->fill.resize(1);
  return *ArrayFile::make(variable, *form_of(View::raw).array);
}

TEST(ArrayAhead, ASequentialReaderGetsMoreAndMoreWithoutGaps) {
  const ArrayFile file = array_of_rows(100);
  ArrayAhead ahead(4);
  uint64_t until = 0;
  uint64_t largest = 0;
  size_t steps = 0;
  for (uint64_t offset = 0; offset < file.size(); offset += kMebibyte / 8) {
    const auto range = ahead.note(offset, kMebibyte / 8, true, file, 32 * kMebibyte);
    if (!range) continue;
    EXPECT_EQ(range->offset, until);
    until = range->offset + range->size;
    EXPECT_LE(until, offset + kMebibyte / 8 + 32 * kMebibyte);
    EXPECT_EQ(until % kRow, 0U) << "the four chunks of a row are requested together";
    largest = std::max(largest, range->size);
    ++steps;
  }
  EXPECT_EQ(until, file.size());
  EXPECT_GE(largest, 16 * kMebibyte);
  EXPECT_LE(steps, 16U);
}

TEST(ArrayAhead, ARandomReaderGetsWhatItAsksFor) {
  const ArrayFile file = array_of_rows(100);
  ArrayAhead ahead(4);
  (void)ahead.note(0, kMebibyte, true, file, 32 * kMebibyte);
  EXPECT_EQ(ahead.note(50 * kMebibyte + 1, 5, false, file, 32 * kMebibyte), (ArrayAhead::Range{50 * kMebibyte + 1, 5}));
}

}  // namespace
}  // namespace codecfs::fs
