// The file of an array compared with a flat model: any range of it, read and written, for any division into chunks.

#include "fs/chunks/array_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>

#include "model/npy_header.h"

namespace codecfs::fs {
namespace {

using Grid = std::vector<uint64_t>;

std::shared_ptr<Variable> make_variable(const Grid& shape, const Grid& chunks, uint64_t element_size) {
  auto variable = std::make_shared<Variable>();
  variable->type = {TypeKind::raw, ByteOrder::none, element_size, {}, {}};
  variable->grid = *ChunkGrid::make(shape, chunks);
  variable->chunk_bytes = variable->grid.elements_per_chunk() * element_size;
  variable->fill.resize(element_size);
  for (uint64_t i = 0; i < element_size; ++i) variable->fill[i] = static_cast<std::byte>(0xf0 + i);
  return variable;
}

/// An array in both forms: the stored chunks, and one block of memory.
class Model {
 public:
  Model(VariablePtr variable, std::mt19937& random, double stored) : variable_(std::move(variable)) {
    const ChunkGrid& grid = variable_->grid;
    for (uint64_t number = 0; number < grid.count(); ++number) {
      if (std::uniform_real_distribution()(random) >= stored) continue;
      Buffer chunk = *Buffer::allocate(*variable_->chunk_bytes);
      for (size_t i = 0; i < chunk.size(); ++i) chunk.data()[i] = static_cast<std::byte>(random());
      chunks_[number] = std::make_shared<Buffer>(std::move(chunk));
    }
  }

  /// The array as one piece, element by element.
  std::vector<std::byte> flat() const {
    const ChunkGrid& grid = variable_->grid;
    const size_t element = variable_->type.size;
    uint64_t count = 1;
    for (const uint64_t extent : grid.shape()) count *= extent;
    std::vector<std::byte> bytes(count * element);
    for (uint64_t i = 0; i < count; ++i) {
      const auto [number, place] = find(i);
      const auto chunk = chunks_.find(number);
      std::memcpy(bytes.data() + i * element,
                  chunk == chunks_.end() ? variable_->fill.data() : chunk->second->data() + place * element, element);
    }
    return bytes;
  }

  /// The n-th element in C order: its chunk, and its index in the chunk.
  std::pair<uint64_t, uint64_t> find(uint64_t n) const {
    const ChunkGrid& grid = variable_->grid;
    Grid cell(grid.rank());
    uint64_t place = 0;
    uint64_t stride = 1;
    for (size_t d = grid.rank(); d-- > 0;) {
      const uint64_t index = n % grid.shape()[d];
      n /= grid.shape()[d];
      cell[d] = index / grid.chunks()[d];
      place += index % grid.chunks()[d] * stride;
      stride *= grid.chunks()[d];
    }
    return {grid.number_of(cell), place};
  }

  std::set<uint64_t> chunks_of(uint64_t begin, uint64_t end) const {
    std::set<uint64_t> numbers;
    for (uint64_t n = begin / variable_->type.size; n * variable_->type.size < end; ++n) numbers.insert(find(n).first);
    return numbers;
  }

  Result<ArrayFile::Part> chunk(uint64_t number) const {
    const auto found = chunks_.find(number);
    if (found == chunks_.end()) return ArrayFile::Part{};
    return ArrayFile::Part{found->second->bytes(), found->second};
  }

  Buffer& changeable(uint64_t number) {
    std::shared_ptr<Buffer>& chunk = chunks_[number];
    if (chunk == nullptr) chunk = std::make_shared<Buffer>(*make_fill_chunk(*variable_));
    return *chunk;
  }

 private:
  VariablePtr variable_;
  std::map<uint64_t, std::shared_ptr<Buffer>> chunks_;
};

struct Layout {
  Grid shape;
  Grid chunks;
  uint64_t element_size;
};

std::vector<Layout> layouts(std::mt19937& random) {
  std::vector<Layout> all = {
      {{}, {}, 8},                            // a scalar
      {{7}, {7}, 4},                          // one chunk
      {{7}, {3}, 1},                          // an edge
      {{7}, {20}, 3},                         // all of it an edge
      {{1}, {1}, 1},                          // one byte
      {{6, 8}, {2, 8}, 4},                    // whole rows
      {{6, 8}, {4, 3}, 2},                    // rows are cut
      {{1, 9}, {1, 4}, 2},                    // one row, cut
      {{1, 9}, {2, 4}, 2},                    // the same, of chunks that are larger
      {{9, 1}, {4, 1}, 5},                    // one column
      {{3, 4, 5}, {1, 1, 1}, 2},              // an element each
      {{3, 4, 5}, {3, 1, 5}, 2},              // planes are cut across
      {{3, 4, 5}, {2, 4, 5}, 16},             // all merged
      {{2, 3, 4, 5}, {1, 2, 4, 2}, 3},        // whole in the middle
      {{2, 1, 4, 5}, {1, 1, 3, 5}, 4},        // a dimension of one
      {{2, 2, 3, 2, 3}, {1, 2, 2, 1, 2}, 2},  // five dimensions
      {{2, 2, 2, 2, 2, 2}, {1, 2, 1, 2, 1, 2}, 1},
      {{5, 6}, {2, 3}, 5000},  // elements larger than a pattern of fill
  };
  std::uniform_int_distribution<uint64_t> extent(1, 9);
  for (int i = 0; i < 60; ++i) {
    Layout layout{{}, {}, extent(random)};
    for (uint64_t rank = extent(random) % 5; rank > 0; --rank) {
      layout.shape.push_back(extent(random));
      layout.chunks.push_back(extent(random));
    }
    all.push_back(std::move(layout));
  }
  return all;
}

std::string print(const Layout& layout) {
  return fmt::format("[{}] in chunks of [{}], elements of {}", fmt::join(layout.shape, ", "),
                     fmt::join(layout.chunks, ", "), layout.element_size);
}

std::string text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// All ranges of a small array, some of a larger one.
std::vector<ArrayFile::Range> ranges_of(uint64_t size, std::mt19937& random) {
  std::vector<ArrayFile::Range> ranges;
  if (size <= 40) {
    for (uint64_t begin = 0; begin < size; ++begin)
      for (uint64_t end = begin + 1; end <= size; ++end) ranges.push_back({begin, end - begin});
    return ranges;
  }
  for (int i = 0; i < 300; ++i) {
    const uint64_t begin = random() % size;
    ranges.push_back({begin, 1 + random() % (size - begin)});
  }
  ranges.push_back({0, size});
  return ranges;
}

class ArrayFileTest : public testing::Test {
 protected:
  std::mt19937 random_{20240611};
};

TEST_F(ArrayFileTest, ReadsAsTheArrayAndAsksForEachChunkOnce) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const Model model(variable, random_, 0.7);
    const std::string flat = text(model.flat());
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
    ASSERT_EQ(file.size(), flat.size());
    for (const auto& [offset, size] : ranges_of(flat.size(), random_)) {
      std::set<uint64_t> asked;
      const auto part = file.read(offset, size, [&](uint64_t number, uint64_t) {
        EXPECT_TRUE(asked.insert(number).second) << "chunk " << number << " a second time";
        return model.chunk(number);
      });
      ASSERT_TRUE(part);
      ASSERT_EQ(text(part->bytes), flat.substr(offset, size)) << offset << " + " << size;
      ASSERT_EQ(asked, model.chunks_of(offset, offset + size)) << offset << " + " << size;
    }
  }
}

TEST_F(ArrayFileTest, WritesChangeTheirBytesAndNoOthers) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    Model model(variable, random_, 0.7);
    std::string flat = text(model.flat());
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
    for (const auto& [offset, size] : ranges_of(flat.size(), random_)) {
      std::string written(size, ' ');
      for (char& c : written) c = static_cast<char>(random_());
      std::set<uint64_t> asked;
      const auto taken = file.write(offset, std::as_bytes(std::span(written)), [&](const auto& change) -> Result<> {
        EXPECT_TRUE(asked.insert(change.number).second) << "chunk " << change.number << " a second time";
        if (change.whole) std::ranges::fill(model.changeable(change.number).mutable_bytes(), std::byte{0xaa});
        change.apply(model.changeable(change.number).mutable_bytes());
        return {};
      });
      ASSERT_EQ(taken, size);
      flat.replace(offset, size, written);
      ASSERT_EQ(asked, model.chunks_of(offset, offset + size));
      ASSERT_EQ(text(model.flat()), flat) << offset << " + " << size;
    }
  }
}

TEST_F(ArrayFileTest, AllThatIsReadOfAChunkIsItsSizeAtLeast) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const Model model(variable, random_, 1.0);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
    std::map<uint64_t, uint64_t> shares;
    for (uint64_t at = 0; at < file.size(); at += 64)
      ASSERT_TRUE(file.read(at, 64, [&](uint64_t number, uint64_t share) {
        shares[number] += share;
        return model.chunk(number);
      }));
    ASSERT_EQ(shares.size(), variable->grid.count());
    for (const auto& [number, share] : shares) {
      EXPECT_GE(share, *variable->chunk_bytes);
      EXPECT_LE(share, *variable->chunk_bytes + file.size() / 64 + 2);
    }
  }
}

TEST_F(ArrayFileTest, WhoWritesFromFrontToBackFinishesEachChunkOnce) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
    const std::vector<std::byte> bytes(7);
    std::set<uint64_t> finished;
    for (uint64_t at = 0; at < file.size(); at += bytes.size())
      ASSERT_TRUE(file.write(at, bytes, [&](const ArrayFile::ChunkChange& change) -> Result<> {
        EXPECT_FALSE(finished.contains(change.number)) << "changed after it was finished";
        if (change.last) finished.insert(change.number);
        return {};
      }));
    EXPECT_EQ(finished.size(), variable->grid.count());
  }
}

TEST_F(ArrayFileTest, TheRangeOfAChunkHoldsAllOfItAndNoMore) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const Model model(variable, random_, 0.0);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> expected;  // first byte and the one after the last
    for (uint64_t at = 0; at < file.size() - file.header_size(); at += layout.element_size) {
      const uint64_t number = model.find(at / layout.element_size).first;
      expected.try_emplace(number, at, at).first->second.second = at + layout.element_size;
    }
    for (uint64_t number = 0; number < variable->grid.count(); ++number) {
      const auto range = file.range_of_chunk(number);
      EXPECT_EQ(range.offset, file.header_size() + expected[number].first);
      EXPECT_EQ(range.offset + range.size, file.header_size() + expected[number].second);
    }
  }
}

TEST_F(ArrayFileTest, AChunkThatIsOneStretchOfTheFileIsKnown) {
  size_t stretches = 0;
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
    if (file.size() == file.header_size()) continue;
    for (uint64_t number = 0; number < variable->grid.count(); ++number) {
      // Make the bytes of this chunk unique locally, and read the file with only this chunk stored.
      const uint64_t size = *variable->chunk_bytes;
      auto bytes = std::make_shared<std::vector<std::byte>>(size);
      for (uint64_t i = 0; i < size; ++i) (*bytes)[i] = static_cast<std::byte>(i * 7 + i / 251 + 1);
      const auto stretch = file.stretch_of_chunk(number);
      const auto range = file.range_of_chunk(number);
      uint64_t of_others = 0;
      const auto part = file.read(range.offset, range.size, [&](uint64_t asked, uint64_t) -> Result<ArrayFile::Part> {
        if (asked != number) ++of_others;
        return ArrayFile::Part{asked == number ? Bytes(*bytes) : Bytes(), asked == number ? bytes : nullptr};
      });
      ASSERT_TRUE(part);
      const bool is_stretch = of_others == 0 && std::ranges::equal(part->bytes, Bytes(*bytes).first(range.size));
      ASSERT_EQ(stretch.has_value(), is_stretch) << "chunk " << number;
      if (!stretch) continue;
      EXPECT_EQ(stretch->offset, range.offset);
      EXPECT_EQ(stretch->size, range.size);
      ++stretches;
    }
  }
  EXPECT_GT(stretches, 0);
}

TEST_F(ArrayFileTest, TheChunksOfARequestAreKnownBeforehand) {
  for (const Layout& layout : layouts(random_)) {
    SCOPED_TRACE(print(layout));
    const VariablePtr variable = make_variable(layout.shape, layout.chunks, layout.element_size);
    const Model model(variable, random_, 0.0);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
    const uint64_t header = file.header_size();
    for (const auto& [offset, size] : ranges_of(file.size() - header, random_)) {
      const uint64_t exact = model.chunks_of(offset, offset + size).size() * *variable->chunk_bytes;
      EXPECT_LE(file.bytes_of_chunks(header + offset, size), exact);
      EXPECT_GE(file.bytes_of_chunks(header + offset, size) * (2 * layout.shape.size() + 1), exact);
    }
    EXPECT_EQ(file.bytes_of_chunks(0, header), 0);
    EXPECT_EQ(file.bytes_of_chunks(file.size(), 10), 0);
  }
}

TEST_F(ArrayFileTest, TheHeaderComesFirst) {
  const VariablePtr variable = make_variable({4, 6}, {3, 4}, 8);
  const Model model(variable, random_, 0.5);
  const std::string all = *npy_header(variable->type, variable->grid.shape()) + text(model.flat());
  const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
  ASSERT_EQ(file.size(), all.size());
  for (uint64_t begin = 0; begin < all.size() + 3; begin += 5)
    for (const uint64_t size : {1, 13, 64, 128, 130, 1000}) {
      const auto part = file.read(begin, size, [&](uint64_t number, uint64_t) { return model.chunk(number); });
      ASSERT_TRUE(part);
      ASSERT_EQ(text(part->bytes), begin < all.size() ? all.substr(begin, size) : "");
    }
}

TEST_F(ArrayFileTest, TheHeaderIsWrittenAsItIs) {
  const VariablePtr variable = make_variable({4, 6}, {3, 4}, 8);
  Model model(variable, random_, 0.5);
  const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
  std::string all = *npy_header(variable->type, variable->grid.shape()) + text(model.flat());
  for (size_t i = file.header_size(); i < all.size(); ++i) all[i] = static_cast<char>(random_());
  int changes = 0;
  const auto change_chunk = [&](const ArrayFile::ChunkChange& change) -> Result<> {
    ++changes;
    change.apply(model.changeable(change.number).mutable_bytes());
    return {};
  };
  EXPECT_EQ(file.write(0, std::as_bytes(std::span(all).first(100)), change_chunk), 100);
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(file.write(90, std::as_bytes(std::span(all).subspan(90)), change_chunk), all.size() - 90);
  EXPECT_EQ(text(model.flat()), all.substr(file.header_size()));

  changes = 0;
  std::string other = all;
  other[other.find("(4, 6)") + 1] = '6';
  const auto refused = file.write(0, std::as_bytes(std::span(other)), change_chunk);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().reason.find("'shape': (4, 6)"), std::string::npos) << refused.error().reason;
  EXPECT_EQ(changes, 0) << "nothing of a file with a wrong header is taken";
}

TEST_F(ArrayFileTest, EndsWhereTheArrayEnds) {
  const VariablePtr variable = make_variable({5}, {2}, 4);
  Model model(variable, random_, 1.0);
  const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
  const std::vector<std::byte> bytes(30);
  const auto change_chunk = [&](const ArrayFile::ChunkChange& change) -> Result<> {
    change.apply(model.changeable(change.number).mutable_bytes());
    return {};
  };
  EXPECT_EQ(file.write(15, bytes, change_chunk), 5) << "less than given";
  EXPECT_EQ(file.write(20, bytes, change_chunk).error().code, EFBIG);
  EXPECT_EQ(file.write(UINT64_MAX, bytes, change_chunk).error().code, EFBIG);
  EXPECT_EQ(file.write(20, {}, change_chunk), 0);
  const auto read_chunk = [&](uint64_t number, uint64_t) { return model.chunk(number); };
  EXPECT_EQ(file.read(18, UINT64_MAX, read_chunk)->bytes.size(), 2);
  EXPECT_EQ(file.read(20, 1, read_chunk)->bytes.size(), 0);
  EXPECT_EQ(file.read(UINT64_MAX, UINT64_MAX, read_chunk)->bytes.size(), 0);
}

TEST_F(ArrayFileTest, OneStretchOfAChunkIsNotCopied) {
  const VariablePtr variable = make_variable({8, 100}, {2, 100}, 8);
  const Model model(variable, random_, 1.0);
  const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
  const auto part = file.read(1600 + 5, 1500, [&](uint64_t number, uint64_t) { return model.chunk(number); });
  ASSERT_TRUE(part);
  EXPECT_EQ(part->bytes.data(), model.chunk(1)->bytes.data() + 5);
}

TEST_F(ArrayFileTest, EmptyArraysAreAHeader) {
  for (const Grid& shape : {Grid{0}, Grid{0, 5}, Grid{5, 0}, Grid{3, 0, uint64_t{1} << 63}}) {
    const VariablePtr variable = make_variable(shape, Grid(shape.size(), 2), 4);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::npy).array);
    EXPECT_EQ(file.size(), file.header_size());
    const auto part = file.read(0, 1000, [&](uint64_t, uint64_t) -> Result<ArrayFile::Part> {
      ADD_FAILURE() << "there are no chunks";
      return ArrayFile::Part{};
    });
    EXPECT_EQ(text(part->bytes), *npy_header(variable->type, shape));
    EXPECT_EQ(ArrayFile::make(variable, *form_of(View::raw).array)->size(), 0);
  }
}

TEST_F(ArrayFileTest, FewOfManyChunksAreLookedAt) {
  // The end of one row and the beginning of the next, 2^40 chunks apart in the grid.
  const uint64_t length = uint64_t{1} << 40;
  for (const Grid& chunks : {Grid{1, 1}, Grid{2, 1}, Grid{2, 3}}) {
    const VariablePtr variable = make_variable({2, length}, chunks, 4);
    const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
    std::set<uint64_t> asked;
    const auto part = file.read(4 * length - 10, 20, [&](uint64_t number, uint64_t) {
      asked.insert(number);
      return ArrayFile::Part{};
    });
    ASSERT_TRUE(part);
    EXPECT_EQ(asked.size(), chunks[1] == 1 ? 6 : 3);
    EXPECT_EQ(text(part->bytes).substr(0, 6), "\xf2\xf3\xf0\xf1\xf2\xf3");
  }
}

TEST_F(ArrayFileTest, WhatIsLargerThanAFileIsRefused) {
  const uint64_t large = uint64_t{1} << 31;
  EXPECT_TRUE(ArrayFile::make(make_variable({large, large}, {1, large}, 1), *form_of(View::raw).array));
  EXPECT_EQ(ArrayFile::make(make_variable({large, large}, {1, large}, 2), *form_of(View::raw).array).error().code,
            EOPNOTSUPP);
  EXPECT_EQ(
      ArrayFile::make(make_variable({large, large, large}, {large, 16, 16}, 1), *form_of(View::npy).array).error().code,
      EOPNOTSUPP);
  // Here the header exceeds the limit.
  EXPECT_TRUE(ArrayFile::make(make_variable({UINT64_MAX / 2}, {large}, 1), *form_of(View::raw).array));
  EXPECT_EQ(ArrayFile::make(make_variable({UINT64_MAX / 2}, {large}, 1), *form_of(View::npy).array).error().code,
            EOPNOTSUPP);
}

TEST_F(ArrayFileTest, ErrorsOfChunksAreThoseOfTheRequest) {
  const VariablePtr variable = make_variable({4}, {2}, 4);
  const Model model(variable, random_, 1.0);
  const ArrayFile file = *ArrayFile::make(variable, *form_of(View::raw).array);
  const auto read = file.read(0, 16, [&](uint64_t number, uint64_t) -> Result<ArrayFile::Part> {
    if (number == 1) return fail(EIO, "corrupt");
    return model.chunk(number);
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().reason, "corrupt");
  const auto short_one = file.read(0, 16, [&](uint64_t number, uint64_t) -> Result<ArrayFile::Part> {
    auto part = model.chunk(number);
    part->bytes = part->bytes.first(7);
    return part;
  });
  EXPECT_EQ(short_one.error().code, EIO);
  const auto written =
      file.write(0, std::vector<std::byte>(16), [](const auto&) -> Result<> { return fail(ENOSPC, "full"); });
  EXPECT_EQ(written.error().code, ENOSPC);
}

/// Whether a chunk has bytes on both sides of this offset.
bool divides_a_chunk(const ArrayFile& file, uint64_t offset) {
  const std::vector<uint64_t> before = file.chunks_of(0, offset, SIZE_MAX);
  const std::vector<uint64_t> after = file.chunks_of(offset, file.size() - offset, SIZE_MAX);
  return std::ranges::any_of(before, [&](uint64_t number) { return std::ranges::find(after, number) != after.end(); });
}

TEST(ArrayFile, RangesCanEndWhereChunksEnd) {
  for (const auto& [shape, chunks] : std::vector<std::pair<Grid, Grid>>{{{6, 7, 5}, {1, 4, 2}},
                                                                        {{6, 7, 5}, {4, 4, 2}},
                                                                        {{5, 6}, {2, 3}},  // the last row has one index
                                                                        {{5, 4}, {2, 4}},
                                                                        {{23}, {5}},
                                                                        {{2, 3, 8, 4}, {1, 1, 3, 3}}}) {
    const ArrayFile file = *ArrayFile::make(make_variable(shape, chunks, 2), *form_of(View::npy).array);
    for (uint64_t to = file.header_size() + 1; to < file.size(); ++to) {
      uint64_t last = to;  // that divides no chunk
      while (divides_a_chunk(file, last)) --last;
      for (const uint64_t from : {to, last, last - std::min<uint64_t>(last, 20), uint64_t{0}}) {
        const uint64_t end = file.end_of_chunks(from, to);
        const std::string what = fmt::format("{} {} {} {}", shape, chunks, from, to);
        EXPECT_GE(end, from) << what;
        EXPECT_LE(end, to) << what;
        EXPECT_EQ(divides_a_chunk(file, end), last < from) << what;
        if (last < from) {
          EXPECT_EQ(end, to) << what;
        }
      }
    }
    EXPECT_EQ(file.end_of_chunks(0, file.size()), file.size());
  }
}

}  // namespace
}  // namespace codecfs::fs
