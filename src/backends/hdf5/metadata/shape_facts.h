#pragma once
// The shape and the chunks of a dataset as a Variable has them, however they were read. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// Unchunked storage is divided into pieces of about so many bytes.
inline constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

struct StoredShape {
  std::vector<uint64_t> dims;
  std::vector<std::optional<uint64_t>> most;  // for each of `dims`; none: unlimited
  bool is_null = false;                       // a null dataspace, without elements
  std::vector<uint64_t> chunk;                // in elements; of chunked storage
};

/// What is stored of each element, as MappedType has it.
struct StoredElement {
  const std::vector<uint64_t>& shape;  // the dimensions of an array type
  bool is_text = false;                // strings of variable length
  uint64_t bytes = 0;                  // in memory
};

/// Sets the grid, max_shape and chunk_bytes, the stored_type of a dataset without a shape, and unreadable if a chunk is
/// too large. `facts` must have its type and storage; `name`: for messages. EOVERFLOW; errors of ChunkGrid::make().
Result<> set_shape(Variable& facts, StoredShape stored, const StoredElement& element, const std::string& name);

}  // namespace codecfs::hdf5
