#pragma once
// An array ready for reading and writing: its metadata, its pipeline, and the limits of its chunk files.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/store/store.h"
#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/pipeline.h"

namespace codecfs::zarr {

/// Decoded bytes that are assumed of a chunk if they depend on its data.
inline constexpr uint64_t kAssumedChunkBytes = uint64_t{64} << 20;

struct OpenArray {
  std::string key;
  Array array;
  std::string metadata;                       // text of .zarray or zarr.json when it was opened
  std::optional<filters::Pipeline> pipeline;  // none if the variable is unreadable
  std::optional<Error> unchangeable;          // why not even a re-encoded copy can be stored
  std::optional<Error> unwritable;            // why no chunk can be stored
  uint64_t max_stored = 0;                    // maximum size of a chunk file
  mode_t mode = 0;                            // permissions of a new chunk file
  // another program has changed the filter pipeline since facts() returned it
  bool is_changed = false;

  /// Whether decoding the bytes of a chunk file with the filters gives the presented chunk.
  [[nodiscard]] bool has_exact_encoding() const {
    return !is_changed && array.variable.stored_order.empty() && !array.rectilinear &&
           (!unchangeable || array.variable.unreadable);
  }
};

using ArrayPtr = std::shared_ptr<const OpenArray>;

/// The name of an array in messages.
const char* called(const std::string& key);
/// The name of a group in messages.
const char* group_called(const std::string& key);
/// `error`, with the file or object that it is about.
std::unexpected<Error> in_file(const std::string& key, const Error& error);

/// Maximum size of a chunk file of such a variable.
uint64_t max_stored_bytes(const Variable& variable);

/// Opens the array in the directory of a key. ENOENT; EIO if its metadata is damaged. `may_write`: also determines
/// whether chunks can be stored.
Result<std::shared_ptr<OpenArray>> load_array(const Hierarchy& hierarchy, const std::string& key, bool may_write);

/// The content of a chunk file.
struct StoredChunk {
  Buffer buffer;  // owns `bytes`; empty if they are the caller's
  Bytes bytes;
};

/// Decodes the filters. `key` is the chunk file's, for messages.
Result<Buffer> undo_filters(const OpenArray& array, const std::string& key, Buffer stored);
/// Encodes with any pipeline; EINVAL if the result exceeds `max_stored` bytes.
Result<StoredChunk> apply_filters(const filters::Pipeline& pipeline, const std::string& key, Bytes chunk,
                                  uint64_t max_stored);

/// Decodes the content of a chunk file to C order.
Result<Buffer> decode_chunk(const OpenArray& array, const std::string& key, Buffer stored);
/// The inverse. EINVAL if the chunk has the wrong size.
Result<StoredChunk> encode_chunk(const OpenArray& array, const std::string& key, Bytes chunk);

}  // namespace codecfs::zarr
