#pragma once
// What receives the references that `codecfs refs` collects: a text or files.

#include <cstdint>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/json.h"

namespace codecfs::commands {

/// Not thread-safe. Gets the documents of a variable, and then its chunks in ascending order of their numbers.
class ReferenceSink {
 public:
  virtual ~ReferenceSink() = default;

  /// A metadata file of Zarr v2; `key`: its path, "g/v/.zarray".
  virtual Result<> add_document(const std::string& key, const Json& document) = 0;
  /// The chunks that follow are of this variable. Not called for variables without chunks.
  virtual Result<> begin_chunks(const std::string& path, const ChunkGrid& grid) = 0;
  /// A chunk that is a range of the source, in bytes.
  virtual Result<> add_place(uint64_t number, uint64_t offset, uint64_t size) = 0;
  /// A chunk that is part of the references.
  virtual Result<> add_content(uint64_t number, Bytes content) = 0;
  /// The last call. Until it has succeeded, readers of the result find nothing or see that it is incomplete.
  virtual Result<> finish() = 0;
};

}  // namespace codecfs::commands
