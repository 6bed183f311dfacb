#pragma once
// The content of a dataset: variables with their attributes and filter pipelines. Plain data, filled in by a backend.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/chunk_keys.h"
#include "model/data_type.h"
#include "model/ended_strings.h"
#include "model/json_value.h"

namespace codecfs {

/// The attribute whose value netCDF and xarray use for missing data.
inline constexpr const char* kFillAttribute = "_FillValue";
/// The attribute of arrays of Zarr v2 that names their dimensions: a list with a name for each. With another value it
/// is an attribute like others, as it is of a group, and in Zarr v3.
inline constexpr const char* kDimensions = "_ARRAY_DIMENSIONS";

struct Attribute {
  std::string name;
  JsonValue value;
  /// The type in the source, as NCZarr names it: "<i2", ">S1" for characters, "|S7" for strings. Empty if the source
  /// does not tell one that NCZarr has.
  std::string type = {};
  /// Of an HDF5 file: the type of the value (hdf5/metadata/type_notes.h), if a new file would get another. Else null.
  JsonValue stored_type = {};
};

/// An attribute that is not shown, with the reason: EOPNOTSUPP (its type has no form in Zarr), EFBIG (larger than what
/// is read), EIO, kNewerFormat.
struct LeftOutAttribute {
  std::string name;  // as Attribute::name
  Error error;
};

/// The ids of filters of HDF5 that have a meaning of their own here.
inline constexpr uint32_t kDeflateId = 1;
inline constexpr uint32_t kShuffleId = 2;
inline constexpr uint32_t kFletcher32Id = 3;

/// One filter of a stored pipeline. HDF5 stores an id and parameters, Zarr a JSON object; the codec mapping (filters/)
/// adds the other representation if there is one.
struct FilterStage {
  uint32_t id = 0;                   // HDF5 filter id; 0 if the codec has none
  std::vector<uint32_t> parameters;  // HDF5 cd_values; empty for codecs without an id
  JsonValue codec;                   // the codec's JSON as stored; null on HDF5
  std::string name;                  // the name that the HDF5 file stores with the filter, may be empty
  bool optional = false;             // HDF5: a chunk that the filter cannot encode is stored without it
  bool has_flag = false;             // `optional` is what the file or the user says; else new datasets get the default
  bool is_complete = false;          // the parameters are a dataset's: the filter's set_local has completed them
};

/// How a source of Zarr v3 stores several chunks of a variable in one file, a shard.
struct Sharding {
  ChunkGrid grid;    // of the shards: each holds a whole number of chunks along each dimension
  JsonValue codecs;  // the list of codecs of zarr.json: of the shards, with those of the chunks in it
};

/// A name for each dimension, none: null in Zarr v3. An empty name is a name.
using OptionalNames = std::vector<std::optional<std::string>>;

enum class Storage { chunked, contiguous, compact, external, virtual_sources };

struct Variable {
  DataType type;
  std::string type_text;  // user._Type: the HDF5 type if numpy's name loses information; else empty
  JsonValue stored_type;  // as Attribute::stored_type
  ChunkGrid grid;         // shape and chunks as presented
  Storage storage = Storage::chunked;
  /// Maximum extent of each dimension, none: unlimited. Empty if the format has no maximum extents.
  std::vector<std::optional<uint64_t>> max_shape;

  /// Decoded bytes of one whole chunk: elements_per_chunk() * type.size; none if it depends on the data (object).
  std::optional<uint64_t> chunk_bytes;
  /// The fill value of .zarray. Zarr readers return uninitialised memory for absent chunks if it is null, so absent
  /// chunks are then shown as files.
  JsonValue fill_value;
  /// One element of fill, type.size bytes (zeros if the source defines none), or empty: zeros, of which an element may
  /// be too large to be kept. For object types, the element as the object codec stores it (vlen-utf8: LE32 length,
  /// text).
  std::vector<std::byte> fill;
  /// Readers of the source get arbitrary bytes instead of `fill` for chunks that are not stored (Zarr's null
  /// fill_value, HDF5's undefined fill value and H5D_FILL_TIME_NEVER). So a chunk that is written must be stored even
  /// if all its elements equal `fill`.
  bool is_fill_undefined = false;
  /// The fill value is only that of chunks which are not stored, and does not mark missing data: NCZarr has a fill
  /// value in any case.
  bool is_fill_unmarked = false;
  /// {"id": "vlen-utf8"} and similar for object types: decoded chunks still have this encoding. Else null.
  JsonValue object_codec;

  std::vector<FilterStage> filters;  // stored pipeline, in the order of encoding, without the object codec
  /// The attributes that are shown, in the source's order, without _ARRAY_DIMENSIONS; last `kPhonyDimensions`, if an
  /// HDF5 file does not have the names of all dimensions.
  std::vector<Attribute> attributes;
  std::vector<LeftOutAttribute> left_out_attributes;
  // one name per dimension; none if the source does not store names, or not for all of them
  std::optional<std::vector<std::string>> dimensions;
  /// The paths of the dimensions to which an NCZarr array refers ("/g/x").
  std::optional<std::vector<std::string>> dimension_paths;
  /// The dimension_names of Zarr v3 if at least one is null; `dimensions` is none then.
  std::optional<OptionalNames> some_dimensions;

  /// How views of Zarr v3 name the chunks: as a source of Zarr v3 does.
  ChunkKeys chunk_keys;
  /// None: each chunk is stored by itself.
  std::optional<Sharding> shards;
  /// Zarr3Type::name of a type that numpy lacks: "bfloat16", in a source of Zarr v3 or HDF5. Empty for other types.
  std::string zarr3_type;
  /// Zarr3Type::is_struct of a source of Zarr v3.
  bool is_zarr3_struct = false;
  /// Of a source of Zarr: axis i of a stored chunk is axis stored_order[i] of the array. Empty: stored chunks need not
  /// be transposed. Chunks are presented in C order in any case.
  std::vector<size_t> stored_order;

  /// Of a source of HDF5: the strings in an element that end at a zero byte.
  std::vector<EndedString> ended_strings;

  /// Set if no chunk can be read at all (EOPNOTSUPP, EIO), with the reason.
  std::optional<Error> unreadable;
  /// Set if the attributes cannot be read (EIO), with the reason: `attributes` is then empty, and `dimensions` may be
  /// generated names.
  std::optional<Error> unreadable_attributes;
};

using VariablePtr = std::shared_ptr<const Variable>;

/// A JSON list as text, with a name or null for each dimension: names that codecfs generated because the HDF5 file of
/// the variable has none for them, as xarray opens no variable without names. Copies keep this attribute, so that the
/// names do not become dimensions when a copy is converted back; no HDF5 dataset stores it. Of a group of NCZarr: a
/// list of the names of its dimensions that are generated.
inline constexpr char kPhonyDimensions[] = "_codecfs_phony_dimensions";
/// How most generated names begin; a number follows.
inline constexpr char kPhonyPrefix[] = "phony_dim_";
Attribute phony_attribute(const OptionalNames& phony);
/// The names of a variable's dimensions, but for those that its attribute marks as generated. All of them if it marks
/// other names: a program has renamed, added or moved dimensions, and means the others, too.
OptionalNames named_dimensions(std::span<const std::string> names, std::span<const Attribute> attributes);
/// All names that the attribute has; none if it does not exist.
std::set<std::string> phony_names(std::span<const Attribute> attributes);

/// A JSON object as text: types that only HDF5 has, which a copy in another format keeps under this name, so that they
/// come back into HDF5: "attributes" has Attribute::stored_type of each attribute that has one, and in a variable
/// "type" has Variable::stored_type or null, "fill" the fill value that a format without one for all variables does not
/// show (Zarr v2), and "max_shape" Variable::max_shape if it is not the shape, null for unlimited. No HDF5 dataset
/// stores it. xarray hides names that begin with "_nc".
inline constexpr char kStoredTypes[] = "_nc_hdf5_types";
/// None where there is nothing to say. `type`: of a variable.
std::optional<Attribute> stored_types(std::span<const Attribute> attributes, const JsonValue* type);
/// What such an attribute says; an empty object if it is damaged.
Json parse_stored_types(const Json& value);
/// "max_shape" of its kStoredTypes as Variable::max_shape, at least its shape; empty if there is none, or it has
/// another number of dimensions.
std::vector<std::optional<uint64_t>> noted_limits(const Variable& variable);

/// The names of all dimensions, or of some, or none.
std::optional<OptionalNames> names_of(const Variable& variable);
/// Sets the names of all dimensions, or of some, or none.
void set_names(Variable& variable, std::optional<OptionalNames> names);

/// Whether one of the names is null.
bool has_unnamed(const OptionalNames& names);
/// Each name where it is first, else null: tensorstore opens no array of Zarr v3 that has a name twice.
OptionalNames distinct_names(std::span<const std::string> names);
bool has_repeated_names(const Variable& variable);
/// Zarr v3: a variable with a name twice gets distinct_names(), and the names as an attribute kDimensions.
void make_names_distinct(Variable& variable);
/// The inverse: `listed`, if that has all of `names`. Else none.
std::optional<OptionalNames> complete_names(const std::optional<OptionalNames>& names,
                                            std::span<const std::string> listed);
/// The names of all dimensions, which a variable of Zarr v3 may have in an attribute kDimensions; else names_of().
std::optional<OptionalNames> all_names_of(const Variable& variable);

/// A chunk in which every element is the fill. EOPNOTSUPP for object codecs other than vlen-utf8.
Result<Buffer> make_fill_chunk(const Variable& variable);

}  // namespace codecfs
