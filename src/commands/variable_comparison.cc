#include "commands/variable_comparison.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/endian.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kBatch = 4096;  // chunks

void reverse_each(MutableBytes bytes, size_t size) {
  for (size_t at = 0; at + size <= bytes.size(); at += size) std::reverse(&bytes[at], &bytes[at] + size);
}

/// Splits a chunk of items of variable length: LE32 count, then LE32 length and bytes of each. EIO.
Result<std::vector<Bytes>> split_items(Bytes chunk, uint64_t elements) {
  const auto damaged = [] { return fail(EIO, "the items of a chunk do not fill it"); };
  if (chunk.size() < 4 || load_le<uint32_t>(chunk.data()) != elements) return damaged();
  std::vector<Bytes> items;
  size_t at = 4;
  for (uint64_t i = 0; i < elements; ++i) {
    if (chunk.size() - at < 4) return damaged();
    const size_t length = load_le<uint32_t>(&chunk[at]);
    at += 4;
    if (chunk.size() - at < length) return damaged();
    items.push_back(chunk.subspan(at, length));
    at += length;
  }
  return items;
}

/// An element for people.
std::string print_element(const Variable& variable, Bytes element) {
  if (variable.type.kind == TypeKind::object)
    return print_json(
        Json(std::string(reinterpret_cast<const char*>(element.data()), std::min<size_t>(element.size(), 60))));
  DataType type = variable.type;
  if (type.order == ByteOrder::big) type.order = ByteOrder::little;
  return print_json(fill_json(type, element));
}

Block block_of(const ChunkGrid& grid, uint64_t number) {
  return {.origin = region_of_chunk(grid, number).origin, .extent = grid.chunks()};
}

}  // namespace

void make_little_endian(const DataType& type, MutableBytes bytes) {
  if (type.kind == TypeKind::structured) {
    for (uint64_t at = 0; at + type.size <= bytes.size(); at += type.size) {
      uint64_t offset = at;
      for (const TypeMember& member : type.members) {
        make_little_endian(member.type, bytes.subspan(offset, member.size()));
        offset += member.size();
      }
    }
    return;
  }
  if (type.order != ByteOrder::big || type.size == 0) return;
  if (type.kind == TypeKind::unicode) return reverse_each(bytes, 4);
  reverse_each(bytes, type.kind == TypeKind::complex ? type.size / 2 : type.size);
}

Result<VariableComparison::ElementsPtr> VariableComparison::elements_of(const VariableOf& variable, uint64_t number) {
  const Variable& facts = *variable.facts;
  const auto elements = std::make_shared<Elements>();
  Result<Buffer> bytes = variable.source.read_chunk(variable.object, number);
  if (!bytes && bytes.error().code == ENOENT) bytes = make_fill_chunk(facts);
  if (!bytes) return pass_on(bytes);
  elements->bytes = *std::move(bytes);
  if (facts.type.kind == TypeKind::object) {
    CODECFS_ASSIGN(elements->items, split_items(elements->bytes.bytes(), facts.grid.elements_per_chunk()));
  } else {
    make_little_endian(facts.type, elements->bytes.mutable_bytes());
  }
  return ElementsPtr(elements);
}

Result<VariableComparison::ElementsPtr> VariableComparison::cached_of_other(uint64_t number) {
  if (ElementsPtr known = cache_.get(number)) return known;
  CODECFS_ASSIGN(ElementsPtr elements, elements_of(other_, number));
  cache_.put(number, elements, elements->bytes.capacity() + elements->items.capacity() * sizeof(Bytes));
  return elements;
}

Result<> VariableComparison::compare_chunk(uint64_t number) {
  CODECFS_ASSIGN(const ElementsPtr one, elements_of(one_, number));
  const Region region = region_of_chunk(one_.facts->grid, number);
  const Block block = block_of(one_.facts->grid, number);
  const bool has_same_chunks = one_.facts->grid.chunks() == other_.facts->grid.chunks();
  for (const uint64_t overlapping : chunks_in(other_.facts->grid, region)) {
    if (interrupted) return fail(ECANCELED, "interrupted");
    CODECFS_ASSIGN(const ElementsPtr other,
                   has_same_chunks ? elements_of(other_, overlapping) : cached_of_other(overlapping));
    const Region part = intersection(region, region_of_chunk(other_.facts->grid, overlapping));
    compare_part(part, *one, block, *other, block_of(other_.facts->grid, overlapping));
  }
  compared_ += one->bytes.size();
  return {};
}

void VariableComparison::compare_part(const Region& region, const Elements& one, const Block& block,
                                      const Elements& other, const Block& other_block) {
  const size_t size = one_.facts->type.size;
  const bool has_items = one_.facts->type.kind == TypeKind::object;
  const auto element = [&](const Elements& elements, uint64_t index) {
    return has_items ? elements.items[index] : elements.bytes.bytes().subspan(index * size, size);
  };
  for_each_run(region, block, other_block, [&](uint64_t in_one, uint64_t in_other, uint64_t count) {
    if (!has_items &&
        std::memcmp(one.bytes.data() + in_one * size, other.bytes.data() + in_other * size, count * size) == 0)
      return;
    for (uint64_t i = 0; i < count; ++i) {
      const Bytes left = element(one, in_one + i);
      const Bytes right = element(other, in_other + i);
      if (std::ranges::equal(left, right)) continue;
      ++differing_;
      note_difference(in_one + i, block,
                      fmt::format("{}, {}", print_element(*one_.facts, left), print_element(*other_.facts, right)));
    }
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
    return in_parallel(numbers.size(), [&](uint64_t i) -> Result<> {
      CODECFS_TRY(compare_chunk(numbers[i]));
      advance(one_.facts->chunk_bytes.value_or(0));
      return {};
    });
  };
  uint64_t stored = 0;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, one_.source.stored_chunks(one_.object, from, kBatch));
    if (numbers.empty()) break;
    CODECFS_TRY(compare_all(numbers));
    stored += numbers.size();
    from = numbers.back() + 1;
  }
  // The chunks that are absent in the first variable, where the second one stores something.
  std::set<uint64_t> absent;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, other_.source.stored_chunks(other_.object, from, kBatch));
    if (numbers.empty()) break;
    for (const uint64_t number : numbers)
      for (const uint64_t overlapping : chunks_in(one_.facts->grid, region_of_chunk(other_.facts->grid, number))) {
        CODECFS_ASSIGN(const ChunkInfo place, one_.source.locate(one_.object, overlapping));
        if (!place.stored) absent.insert(overlapping);
      }
    from = numbers.back() + 1;
  }
  CODECFS_TRY(compare_all({absent.begin(), absent.end()}));
  // Where neither stores anything, both read as their fill.
  if (stored + absent.size() < one_.facts->grid.count()) compare_fills();
  return {};
}

void VariableComparison::compare_fills() {
  if (one_.facts->is_fill_undefined || other_.facts->is_fill_undefined) return;
  const auto fill_of = [](const Variable& facts) {
    std::vector<std::byte> fill = facts.fill;
    if (facts.type.kind == TypeKind::object) return fill;
    fill.resize(facts.type.size);  // empty: zeros
    make_little_endian(facts.type, fill);
    return fill;
  };
  const std::vector<std::byte> one = fill_of(*one_.facts);
  const std::vector<std::byte> other = fill_of(*other_.facts);
  if (std::ranges::equal(one, other)) return;
  const LockGuard lock(mutex_);
  fills_text_ = fmt::format("chunks that neither stores read as {}, {}", print_element(*one_.facts, one),
                            print_element(*other_.facts, other));
}

}  // namespace codecfs::commands
