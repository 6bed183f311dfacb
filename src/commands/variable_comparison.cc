#include "commands/variable_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kCompared = 4096;  // chunks

Block block_of(const ChunkGrid& grid, uint64_t number) {
  return {.origin = region_of_chunk(grid, number).origin, .extent = grid.chunks()};
}

Result<Elements> make_fill(const Variable& facts) {
  if (facts.type.kind != TypeKind::object) {
    CODECFS_ASSIGN(Buffer chunk, make_fill_chunk(facts));
    return elements_of_chunk(facts, std::move(chunk), facts.grid.elements_per_chunk());
  }
  Elements elements;
  CODECFS_ASSIGN(elements.bytes, Buffer::copy_of(fill_element(facts)));
  elements.items.assign(facts.grid.elements_per_chunk(), elements.bytes.bytes());
  return elements;
}

}  // namespace

Result<VariableComparison::ElementsPtr> VariableComparison::elements_of(const VariableOf& variable, Fill& fill,
                                                                        uint64_t number) {
  CODECFS_ASSIGN(const ChunkInfo place, variable.source.locate(variable.object, number));
  if (place.stored) {
    Result<Buffer> bytes = variable.source.read_chunk(variable.object, number);
    if (bytes) {
      const uint64_t count = variable.facts->grid.elements_per_chunk();
      CODECFS_ASSIGN(Elements elements, elements_of_chunk(*variable.facts, *std::move(bytes), count));
      if (as_texts_) {
        CODECFS_ASSIGN(elements, as_texts(*variable.facts, std::move(elements)));
      }
      return std::make_shared<const Elements>(std::move(elements));
    }
    if (bytes.error().code != ENOENT) return pass_on(bytes);
  }
  const LockGuard lock(fill.mutex);
  if (!fill.elements) {
    CODECFS_ASSIGN(Elements elements, make_fill(*variable.facts));
    if (as_texts_) {
      CODECFS_ASSIGN(elements, as_texts(*variable.facts, std::move(elements)));
    }
    fill.elements = std::make_shared<const Elements>(std::move(elements));
  }
  return fill.elements;
}

Result<VariableComparison::ElementsPtr> VariableComparison::cached_of_other(uint64_t number) {
  if (ElementsPtr known = cache_.get(number)) return known;
  CODECFS_ASSIGN(ElementsPtr elements, elements_of(other_, fill_of_other_, number));
  cache_.put(number, elements, elements->bytes.capacity() + elements->items.capacity() * sizeof(Bytes));
  return elements;
}

Result<> VariableComparison::compare_chunk(uint64_t number) {
  if (!has_comparable_elements(*one_.facts)) return compare_whole_chunk(number);
  CODECFS_ASSIGN(const ElementsPtr one, elements_of(one_, fill_of_one_, number));
  const Region region = region_of_chunk(one_.facts->grid, number);
  const Block block = block_of(one_.facts->grid, number);
  const bool has_same_chunks = one_.facts->grid.chunks() == other_.facts->grid.chunks();
  CODECFS_TRY(for_each_chunk_in(other_.facts->grid, region, [&](uint64_t overlapping) -> Result<> {
    if (interrupted) return fail(ECANCELED, "interrupted");
    CODECFS_ASSIGN(const ElementsPtr other,
                   has_same_chunks ? elements_of(other_, fill_of_other_, overlapping) : cached_of_other(overlapping));
    const Region part = intersection(region, region_of_chunk(other_.facts->grid, overlapping));
    compare_part(part, *one, block, *other, block_of(other_.facts->grid, overlapping));
    return {};
  }));
  compared_ += one->bytes.size();
  return {};
}

// Of elements that are encoded together: the same bytes are the same elements, others may be.
Result<> VariableComparison::compare_whole_chunk(uint64_t number) {
  const auto not_comparable = [&] {
    return fail(EOPNOTSUPP, "elements of the object codec {} cannot be compared", print_json(one_.facts->object_codec));
  };
  if (one_.facts->grid.chunks() != other_.facts->grid.chunks()) return not_comparable();
  const auto read = [&](const VariableOf& variable) -> Result<std::optional<Buffer>> {
    Result<Buffer> bytes = variable.source.read_chunk(variable.object, number);
    if (bytes) return std::optional(*std::move(bytes));
    if (bytes.error().code == ENOENT) return std::nullopt;
    return pass_on(bytes);
  };
  CODECFS_ASSIGN(const std::optional<Buffer> one, read(one_));
  CODECFS_ASSIGN(const std::optional<Buffer> other, read(other_));
  if (one.has_value() != other.has_value()) return not_comparable();
  if (one && !std::ranges::equal(one->bytes(), other->bytes())) return not_comparable();
  if (one) compared_ += one->size();
  return {};
}

void VariableComparison::compare_part(const Region& region, const Elements& one, const Block& block,
                                      const Elements& other, const Block& other_block) {
  const size_t size = one_.facts->type.size;
  const bool has_items = as_texts_ || one_.facts->type.kind == TypeKind::object;
  const auto element = [&](const Elements& elements, uint64_t index) {
    return has_items ? elements.items[index] : elements.bytes.bytes().subspan(index * size, size);
  };
  for_each_run(region, block, other_block, [&](uint64_t in_one, uint64_t in_other, uint64_t count) {
    if (!has_items &&
        std::memcmp(one.bytes.data() + in_one * size, other.bytes.data() + in_other * size, count * size) == 0)
      return;
    uint64_t differing = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const Bytes left = element(one, in_one + i);
      const Bytes right = element(other, in_other + i);
      if (std::ranges::equal(left, right)) continue;
      // Only the first of a run can be the first of all.
      if (differing++ > 0) continue;
      note_difference(in_one + i, block, fmt::format("{}, {}", text_of(one_, left), text_of(other_, right)));
    }
    differing_ += differing;
  });
}

void VariableComparison::note_difference(uint64_t index_in_block, const Block& block, std::string text) {
  std::vector<uint64_t> at(block.extent.size());
  for (size_t d = at.size(); d-- > 0; index_in_block /= block.extent[d])
    at[d] = block.origin[d] + index_in_block % block.extent[d];
  const LockGuard lock(mutex_);
  if (first_ && *first_ <= at) return;
  first_ = std::move(at);
  first_text_ = std::move(text);
}

std::string VariableComparison::first_text() const {
  const LockGuard lock(mutex_);
  if (!first_) return fills_text_;
  std::string at;
  for (const uint64_t index : *first_) at += (at.empty() ? "" : ", ") + std::to_string(index);
  return fmt::format("at [{}]: {}", at, first_text_);
}

Result<> VariableComparison::run(const std::function<void(uint64_t bytes)>& advance) {
  const auto compare_all = [&](const std::vector<uint64_t>& numbers) {
    std::vector<ChunkToRead> chunks;
    chunks.reserve(numbers.size());
    for (const uint64_t number : numbers) chunks.push_back({one_.object, number});
    return read_in_parallel(one_.source, chunks, [&](uint64_t i) -> Result<> {
      CODECFS_TRY(compare_chunk(numbers[i]));
      advance(one_.facts->chunk_bytes.value_or(0));
      return {};
    });
  };
  uint64_t compared = 0;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, one_.source.stored_chunks(one_.object, from, kCompared));
    if (numbers.empty()) break;
    CODECFS_TRY(compare_all(numbers));
    compared += numbers.size();
    from = numbers.back() + 1;
  }
  CODECFS_TRY(compare_where_absent(compare_all, compared));
  // Where neither stores anything, both read as their fill.
  return compared < one_.facts->grid.count() ? compare_fills() : Result<>();
}

// The chunks that are absent in the first variable, where the second one stores something.
Result<> VariableComparison::compare_where_absent(
    const std::function<Result<>(const std::vector<uint64_t>&)>& compare_all, uint64_t& compared) {
  const ChunkGrid& grid = one_.facts->grid;
  uint64_t row = 1;  // chunks with the same first coordinate
  for (size_t d = 1; d < grid.rank(); ++d) row *= grid.cells()[d];
  std::set<uint64_t> seen;  // those that later chunks of the other variable may overlap, too
  std::vector<uint64_t> absent;
  const auto flush = [&]() -> Result<> {
    CODECFS_TRY(compare_all(absent));
    compared += absent.size();
    absent.clear();
    return {};
  };
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, other_.source.stored_chunks(other_.object, from, kCompared));
    if (numbers.empty()) return flush();
    for (const uint64_t number : numbers) {
      const Region region = region_of_chunk(other_.facts->grid, number);
      if (grid.rank() > 0) seen.erase(seen.begin(), seen.lower_bound(region.origin[0] / grid.chunks()[0] * row));
      CODECFS_TRY(for_each_chunk_in(grid, region, [&](uint64_t overlapping) -> Result<> {
        if (interrupted) return fail(ECANCELED, "interrupted");
        if (!seen.insert(overlapping).second) return {};
        CODECFS_ASSIGN(const ChunkInfo place, one_.source.locate(one_.object, overlapping));
        if (place.stored) return {};
        absent.push_back(overlapping);
        return absent.size() < kCompared ? Result<>() : flush();
      }));
    }
    from = numbers.back() + 1;
  }
}

Result<> VariableComparison::compare_fills() {
  if (one_.facts->is_fill_undefined || other_.facts->is_fill_undefined) return {};
  const auto fill_of = [&](const VariableOf& variable) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> fill = fill_element(*variable.facts);
    if (!as_texts_ || variable.facts->type.kind == TypeKind::object) return fill;
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(fill));
    CODECFS_ASSIGN(const Elements texts, as_texts(*variable.facts, {.bytes = std::move(bytes), .items = {}}));
    const Bytes text = texts.bytes.bytes();
    return std::vector<std::byte>(text.begin(), text.end());
  };
  CODECFS_ASSIGN(const std::vector<std::byte> one, fill_of(one_));
  CODECFS_ASSIGN(const std::vector<std::byte> other, fill_of(other_));
  if (std::ranges::equal(one, other)) return {};
  const LockGuard lock(mutex_);
  fills_text_ = fmt::format("chunks that neither stores read as {}, {}", text_of(one_, one), text_of(other_, other));
  return {};
}

std::string VariableComparison::text_of(const VariableOf& variable, Bytes element) const {
  return as_texts_ ? text_for_people(element) : element_text(*variable.facts, element);
}

}  // namespace codecfs::commands
