#include "commands/first_values.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/human.h"
#include "commands/elements.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr uint64_t kMaxShownChunk = uint64_t{64} << 20;  // decoded bytes

/// An element of elements_of_chunk() as JSON.
Json element_json(const Variable& variable, Bytes element) {
  switch (variable.type.kind) {
    case TypeKind::string: {
      while (!element.empty() && element.back() == std::byte{}) element = element.first(element.size() - 1);
      return std::string(reinterpret_cast<const char*>(element.data()), element.size());
    }
    case TypeKind::object:
      if (!has_texts(variable)) return element_text(variable, element);
      return std::string(reinterpret_cast<const char*>(element.data()), element.size());
    case TypeKind::structured:
    case TypeKind::raw: return element_text(variable, element);
    default: {
      DataType little = variable.type;
      if (little.order == ByteOrder::big) little.order = ByteOrder::little;
      return fill_json(little, element);
    }
  }
}

/// Reads the elements of one chunk after the other.
class ElementReader {
 public:
  ElementReader(Source& source, ObjectId object, const Variable& facts)
      : source_(source), object_(object), facts_(facts), fill_(fill_element(facts)) {}

  /// The element at these coordinates, as elements_of_chunk() makes it; valid until the next call.
  Result<Bytes> at(std::span<const uint64_t> coordinates) {
    std::vector<uint64_t> cell(coordinates.size());
    uint64_t index = 0;
    for (size_t d = 0; d < cell.size(); ++d) {
      const uint64_t extent = facts_.grid.chunks()[d];
      cell[d] = coordinates[d] / extent;
      index = index * extent + coordinates[d] % extent;
    }
    const uint64_t number = facts_.grid.number_of(cell);
    if (number != number_) {
      CODECFS_TRY(read(number));
      number_ = number;
    }
    if (!elements_) return Bytes(fill_);
    if (facts_.type.kind == TypeKind::object) return elements_->items[index];
    return elements_->bytes.bytes().subspan(index * facts_.type.size, facts_.type.size);
  }

 private:
  Result<> read(uint64_t number) {
    elements_.reset();
    Result<Buffer> chunk = source_.read_chunk(object_, number);
    if (!chunk && chunk.error().code == ENOENT) return {};
    if (!chunk) return std::unexpected(std::move(chunk.error()));
    CODECFS_ASSIGN(elements_, elements_of_chunk(facts_, *std::move(chunk), facts_.grid.elements_per_chunk()));
    return {};
  }

  Source& source_;
  const ObjectId object_;
  const Variable& facts_;
  const std::vector<std::byte> fill_;
  std::optional<uint64_t> number_;
  std::optional<Elements> elements_;  // of the chunk `number_`; none if it is not stored
};

/// The next coordinates in C order.
void advance(std::vector<uint64_t>& coordinates, const std::vector<uint64_t>& shape) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++coordinates[d] < shape[d]) return;
    coordinates[d] = 0;
  }
}

}  // namespace

FirstValues first_values(Source& source, ObjectId variable, const Variable& facts, size_t most) {
  FirstValues found;
  if (facts.unreadable) found.error = facts.unreadable;
  if (!found.error && !has_comparable_elements(facts))
    found.error = Error{EOPNOTSUPP, "elements of this type are not shown"};
  if (!found.error && facts.chunk_bytes.value_or(0) > kMaxShownChunk)
    found.error = Error{EFBIG, "a chunk takes " + human_bytes(*facts.chunk_bytes) + ": too large to be read for this"};
  if (found.error) return found;
  uint64_t count = 1;  // of elements, or more than `most`
  for (const uint64_t extent : facts.grid.shape()) {
    if (extent == 0) count = 0;
    if (__builtin_mul_overflow(count, extent, &count)) count = UINT64_MAX;
  }
  found.is_all = count <= most;
  ElementReader reader(source, variable, facts);
  std::vector<uint64_t> coordinates(facts.grid.rank());
  for (uint64_t i = 0; i < std::min<uint64_t>(count, most); ++i) {
    const Result<Bytes> element = reader.at(coordinates);
    if (!element) {
      found.error = element.error();
      return found;
    }
    found.texts.push_back(element_text(facts, *element));
    found.values.push_back(element_json(facts, *element));
    advance(coordinates, facts.grid.shape());
  }
  return found;
}

Result<std::vector<std::optional<FirstValues>>> all_first_values(Source& source, const DatasetInfo& info, size_t most) {
  std::vector<std::optional<FirstValues>> all(info.nodes.size());
  std::vector<size_t> variables;
  for (size_t i = 0; i < info.nodes.size(); ++i)
    if (info.nodes[i].variable && info.nodes[i].variable->facts) variables.push_back(i);
  CODECFS_TRY(in_parallel(
      variables.size(),
      [&](uint64_t number) -> Result<> {
        const InfoNode& node = info.nodes[variables[number]];
        all[variables[number]] = first_values(source, node.entry.object, *node.variable->facts, most);
        return {};
      },
      source.reads_at_once()));
  return all;
}

}  // namespace codecfs::commands
