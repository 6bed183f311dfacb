#pragma once
// An array made ready for reading and writing: its metadata, its pipeline, and what its chunk files may be.

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/store/store.h"
#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/pipeline.h"

namespace codecfs::zarr {

struct OpenArray {
  std::string key;
  Array array;
  std::string zarray;                         // the text that it was made of
  std::optional<filters::Pipeline> pipeline;  // none where the variable is unreadable
  std::optional<Error> unchangeable;          // why not even a copy with another chain can be stored
  std::optional<Error> unwritable;            // why no chunk can be stored
  uint64_t max_stored = 0;                    // bytes that a chunk file can have
  mode_t mode = 0;                            // permissions of a new chunk file
  bool is_changed = false;                    // another program has changed the chain since facts of it were given

  /// Whether undoing the filters of exactly what a chunk file holds gives the presented chunk.
  [[nodiscard]] bool is_stored_as_told() const {
    return !is_changed && !array.fortran_order && (!unchangeable || array.variable.unreadable);
  }
};

using ArrayPtr = std::shared_ptr<const OpenArray>;

/// How messages call an array.
const char* called(const std::string& key);

/// Bytes that a chunk file of such a variable can have.
uint64_t max_stored_bytes(const Variable& variable);

/// The array in the directory of a key. ENOENT; EIO where its metadata are damaged. `may_write`: it is found out too
/// whether chunks can be stored.
Result<std::shared_ptr<OpenArray>> load_array(const Store& store, const std::string& key, bool may_write);

/// A chunk as its file holds it.
struct StoredChunk {
  Buffer buffer;  // what `bytes` lie in; empty where they are those that were given
  Bytes bytes;
};

/// Undoes the filters. `key` is the chunk file's, for messages.
Result<Buffer> undo_filters(const OpenArray& array, const std::string& key, Buffer stored);
/// Applies those of any chain; at most `max_stored` bytes may come out of it.
Result<StoredChunk> apply_filters(const filters::Pipeline& pipeline, const std::string& key, Bytes chunk,
                                  uint64_t max_stored);

/// Decodes what a chunk file holds, and puts it in C order.
Result<Buffer> decode_chunk(const OpenArray& array, const std::string& key, Buffer stored);
/// The other way round. EINVAL where the chunk is not of the right size.
Result<StoredChunk> encode_chunk(const OpenArray& array, const std::string& key, Bytes chunk);

}  // namespace codecfs::zarr
