// Two variables of text in memory, with any chunks.

#include "commands/variable_comparison.h"

#include <gtest/gtest.h>

#include <random>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

/// Stores the text in chunks; those without a letter may be absent.
void store(MemorySource& source, const std::string& text, std::vector<uint64_t> shape, std::vector<uint64_t> chunks,
           std::mt19937& random) {
  const Variable variable = text_variable(shape, std::move(chunks));
  source.add_variable("/v", variable);
  const ChunkGrid& grid = variable.grid;
  for (uint64_t number = 0; number < grid.count(); ++number) {
    const Region region = region_of_chunk(grid, number);
    std::string bytes(grid.elements_per_chunk(), random() % 2 == 0 ? '#' : '.');  // the padding may be anything
    for_each_run(region, {std::vector<uint64_t>(shape.size()), shape}, {region.origin, grid.chunks()},
                 [&](uint64_t from, uint64_t to, uint64_t count) { bytes.replace(to, count, text, from, count); });
    if (bytes.find_first_not_of('.') == bytes.npos && random() % 2 == 0) continue;
    source.put("/v", number, bytes);
  }
}

VariableOf variable_of(MemorySource& source) {
  return {source, source.object("/v"), *source.facts(source.object("/v"))};
}

TEST(VariableComparison, CountsWhatDiffersAndFindsTheFirst) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const size_t rank = random() % 4;
    std::vector<uint64_t> shape;
    std::vector<uint64_t> chunks;
    std::vector<uint64_t> other_chunks;
    uint64_t elements = 1;
    for (size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + random() % 6);
      chunks.push_back(1 + random() % 7);
      other_chunks.push_back(1 + random() % 7);
      elements *= shape.back();
    }
    std::string text(elements, '.');
    for (char& c : text)
      if (random() % 3 == 0) c = 'a';
    std::string changed = text;
    for (size_t i = random() % 4; i > 0; --i) changed[random() % elements] = 'b';
    uint64_t expected = 0;
    for (uint64_t i = 0; i < elements; ++i) expected += text[i] != changed[i] ? 1 : 0;

    MemorySource one;
    MemorySource other;
    store(one, text, shape, chunks, random);
    store(other, changed, shape, other_chunks, random);
    VariableComparison comparison(variable_of(one), variable_of(other));
    ASSERT_TRUE(comparison.run([](uint64_t) {}));
    ASSERT_EQ(comparison.differing(), expected);
    if (expected == 0) {
      ASSERT_EQ(comparison.first_text(), "");
      continue;
    }
    uint64_t first = 0;
    while (text[first] == changed[first]) ++first;
    std::string at;
    std::vector<uint64_t> indices(rank);
    for (size_t d = rank; d-- > 0; first /= shape[d]) indices[d] = first % shape[d];
    for (const uint64_t index : indices) at += (at.empty() ? "" : ", ") + std::to_string(index);
    ASSERT_TRUE(comparison.first_text().starts_with("at [" + at + "]: ")) << comparison.first_text();
  }
}

TEST(VariableComparison, ComparesFillsWhereNothingIsStored) {
  MemorySource one;
  MemorySource other;
  Variable variable = text_variable({4}, {2});
  one.add_variable("/v", variable);
  variable.fill = {std::byte{'x'}};
  other.add_variable("/v", variable);
  VariableComparison comparison(variable_of(one), variable_of(other));
  ASSERT_TRUE(comparison.run([](uint64_t) {}));
  EXPECT_EQ(comparison.differing(), 0U);
  EXPECT_EQ(comparison.first_text(), "chunks that neither stores read as 46, 120");
}

TEST(VariableComparison, CountsWhatItCompares) {
  std::mt19937 random(2);
  MemorySource one;
  MemorySource other;
  store(one, "aaaaaaaa", {8}, {2}, random);
  store(other, "aaaaaaaa", {8}, {8}, random);
  VariableComparison comparison(variable_of(one), variable_of(other));
  std::atomic<uint64_t> advanced = 0;
  ASSERT_TRUE(comparison.run([&](uint64_t bytes) { advanced += bytes; }));
  EXPECT_EQ(advanced, 8U);
  EXPECT_EQ(comparison.compared_bytes(), 8U);
}

}  // namespace
}  // namespace codecfs::commands
