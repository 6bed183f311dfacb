#pragma once
// zarr.json, the metadata file of groups and arrays in the views of Zarr v3. Source: Zarr v3 core specification;
// zarr-python 3 for consolidated metadata.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/nodes/metadata_files.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::fs {

/// zarr.json of a group; without attributes that cannot be read.
Json zarr3_group_json(const Result<std::vector<Attribute>>& attributes);
/// The text of the same with consolidated metadata. `below`: the members of its "metadata", the zarr.json of everything
/// below by path, each on lines that begin with a line break and are indented by kZarr3BelowIndent.
std::string zarr3_group_text(const Result<std::vector<Attribute>>& attributes, std::string_view below);
inline constexpr size_t kZarr3BelowIndent = 12;

/// zarr.json of an array with chunks that are encoded with this pipeline of codecs and have these names; `described`:
/// with its attributes. EOPNOTSUPP with the reason if Zarr v3 cannot describe it.
Result<Json> zarr3_array_json(const Variable& described, std::span<const FilterStage> chain,
                              const ChunkKeys& keys = {});

/// zarr.json of a sharded array, with its shards as chunks and the codecs as they are stored.
Result<Json> zarr3_sharded_json(const Variable& described, const ChunkKeys& keys);

/// What a written zarr.json says. `attributes.dimensions`: of an array, a name for each dimension.
struct WrittenZarr3 {
  bool is_array = false;
  WrittenAttributes attributes;
  /// Of an array: type, grid, fill, names of dimensions and chunks, object codec, shards and `filters`, the codecs
  /// after `bytes`; fill_value is null.
  Variable variable;
};
/// EINVAL with a reason, also for what these views cannot store: chunks that are transposed, but for those in shards,
/// and unless `with_codecs`, shards and codecs behind `bytes`. Consolidated metadata is ignored.
Result<WrittenZarr3> parse_zarr_json(std::string_view text, bool with_codecs);

/// Whether two arrays with the same chunks have the same shards and codecs in a zarr.json, or none has shards.
bool are_same_shards(const Variable& one, const Variable& other);

/// The attribute _FillValue as xarray writes it in Zarr v3, where the fill value of an array marks nothing as missing:
/// floats as base64 of a float64. None for types for which xarray has no such form, and refuses the attribute.
std::optional<Json> print_fill_attribute(const Variable& variable, const Json& value);
/// The inverse. None if it has another form.
std::optional<Json> parse_fill_attribute(const Variable& variable, const Json& value);

}  // namespace codecfs::fs
