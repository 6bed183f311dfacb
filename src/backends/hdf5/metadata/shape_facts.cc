#include "backends/hdf5/metadata/shape_facts.h"

#include <algorithm>
#include <utility>

#include "model/json.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

// The largest pieces of at most kPieceBytes that are contiguous in C order: whole in the fastest dimensions, divided in
// the next one, and of length one in the slower ones.
std::vector<uint64_t> cut_into_pieces(const std::vector<uint64_t>& shape, uint64_t element_bytes) {
  std::vector<uint64_t> piece(shape.size(), 1);
  const uint64_t bytes = std::min(kPieceBytes, max_chunk_bytes());
  uint64_t room = std::max<uint64_t>(bytes / std::max<uint64_t>(element_bytes, 1), 1);  // in elements
  for (size_t d = shape.size(); d-- > 0;) {
    piece[d] = std::clamp<uint64_t>(shape[d], 1, room);
    if (piece[d] < shape[d]) break;
    room /= piece[d];
  }
  return piece;
}

}  // namespace

Result<> set_shape(Variable& facts, StoredShape stored, const StoredElement& element, const std::string& name) {
  std::vector<uint64_t> shape = std::move(stored.dims);
  std::vector<uint64_t> chunks =
      facts.storage == Storage::chunked ? std::move(stored.chunk) : cut_into_pieces(shape, element.bytes);
  facts.max_shape = std::move(stored.most);
  if (stored.is_null) {
    shape.assign(1, 0);
    chunks.assign(1, 1);
    facts.max_shape.assign(1, 0);
    facts.stored_type = Json{{"empty", *facts.stored_type}};
  }
  facts.max_shape.insert(facts.max_shape.end(), element.shape.begin(), element.shape.end());
  shape.insert(shape.end(), element.shape.begin(), element.shape.end());
  chunks.insert(chunks.end(), element.shape.begin(), element.shape.end());
  auto grid = ChunkGrid::make(std::move(shape), std::move(chunks));
  if (!grid) return fail(grid.error().code, "{}: {}", name, grid.error().reason);
  facts.grid = std::move(*grid);

  const uint64_t bytes_of_one = element.is_text ? sizeof(char*) : facts.type.size;
  const uint64_t elements = facts.grid.elements_per_chunk();
  if (!element.is_text) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements, bytes_of_one, &bytes))
      return fail(EOVERFLOW, "{}: its chunks are too large", name);
    facts.chunk_bytes = bytes;
  }
  if (elements > max_chunk_bytes() / bytes_of_one && !facts.unreadable)
    facts.unreadable = Error{EFBIG, fmt::format("{}: a chunk of {} elements of {} bytes is larger than {}", name,
                                                elements, bytes_of_one, max_chunk_text())};
  return {};
}

}  // namespace codecfs::hdf5
