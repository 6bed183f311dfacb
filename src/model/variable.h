#pragma once
// What a dataset holds: variables with their attributes and filter chains. Plain data, made by a backend.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/data_type.h"
#include "model/json_value.h"

namespace codecfs {

struct Attribute {
  std::string name;
  JsonValue value;
};

/// One filter of a stored chain. HDF5 tells an id and parameters, Zarr a JSON object; the codec mapping (filters/)
/// fills in the other half where there is one.
struct FilterStage {
  uint32_t id = 0;                   // HDF5 filter id; 0 where the codec has none
  std::vector<uint32_t> parameters;  // HDF5 cd_values; of codecs without id empty
  JsonValue codec;                   // the codec's JSON as stored; null on HDF5
  std::string name;                  // the name that the HDF5 file stores with the filter, may be empty
  bool optional = false;             // HDF5: a chunk that the filter cannot encode is stored without it
};

enum class Storage { chunked, contiguous, compact, external, virtual_sources };

struct Variable {
  DataType type;
  std::string type_text;  // user._Type: the HDF5 type where numpy's name does not tell it all; else empty
  ChunkGrid grid;         // shape and chunks as presented
  Storage storage = Storage::chunked;
  /// How long each dimension may become, none: without limit. Empty where the format knows no limits.
  std::vector<std::optional<uint64_t>> max_shape;

  /// Decoded bytes of one whole chunk: elements_per_chunk() * type.size; none where it depends on the data (object).
  std::optional<uint64_t> chunk_bytes;
  /// As .zarray shows it. null: readers get uninitialised memory for absent chunks, so absent ones are presented.
  JsonValue fill_value;
  /// One element of fill, type.size bytes (zeros where the source has none); for object types the element's bytes as
  /// the object codec stores it (vlen-utf8: LE32 length, text).
  std::vector<std::byte> fill;
  /// Readers of the source get arbitrary bytes, and not `fill`, for what is not stored: Zarr's null fill_value, HDF5's
  /// undefined fill value and H5D_FILL_TIME_NEVER. So a value that is written must be stored even if it equals `fill`.
  bool is_fill_undefined = false;
  /// {"id": "vlen-utf8"} and the like for object types: it stays in the chunks that we show. Else null.
  JsonValue object_codec;

  std::vector<FilterStage> filters;   // stored chain, in the order of encoding, without the object codec
  std::vector<Attribute> attributes;  // those to be shown, in the source's order, without _ARRAY_DIMENSIONS
  std::optional<std::vector<std::string>> dimensions;  // names, one a dimension; none where the source does not tell

  /// Why no chunk can be read at all (EOPNOTSUPP, EIO), if that is so.
  std::optional<Error> unreadable;
};

using VariablePtr = std::shared_ptr<const Variable>;

/// A chunk in which every element is the fill. EOPNOTSUPP for object codecs other than vlen-utf8.
Result<Buffer> make_fill_chunk(const Variable& variable);

}  // namespace codecfs
