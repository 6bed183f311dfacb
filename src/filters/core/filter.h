#pragma once
// A known filter: its names and parameters in HDF5 and in Zarr, and its decoder and encoder.
//
// The same filter is an id with 32-bit parameters in HDF5 ({32015, [3]}) and a JSON object in Zarr ({"id": "zstd",
// "level": 3}). A filter that only one of the formats knows has id 0 or an empty codec. codecs/all.inc lists the
// built-in filters, each of which has its own source file; plugins register more at run time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::filters {

/// What is known about the size of data before the data exists.
struct SizeBound {
  uint64_t max = 0;                    // bytes; upper bound
  std::optional<uint64_t> exact = {};  // bytes; set if the size is known exactly (then equal to max)
  bool is_usual = false;               // most data of this kind has `max` bytes, so decoders allocate them at once

  static SizeBound exactly(uint64_t bytes) { return {.max = bytes, .exact = bytes}; }
  static SizeBound usually(uint64_t bytes) { return {.max = bytes, .exact = std::nullopt, .is_usual = true}; }
};

/// A chunk as a filter encodes it: for the first filter, as the last one has decoded it.
struct ChunkShape {
  std::optional<uint64_t> bytes = {};  // exact size; none if it depends on the data (object types)
  DataType type = {};                  // of its elements
  std::vector<uint64_t> shape = {};    // elements of the whole array per dimension; empty for a scalar
  std::vector<uint64_t> chunks = {};   // elements of a chunk per dimension
  std::string type_name = {};          // Variable::zarr3_type
};

/// A filter with parsed and checked parameters, ready for use. Immutable and thread-safe.
struct Coder {
  /// Decodes: returns the bytes that the encoder received. `out` bounds their size: output beyond it is EIO before
  /// memory is allocated for it (the pipeline checks for output that is too short). EIO for damaged data, ENOMEM. The
  /// reason does not name the filter.
  std::function<Result<Buffer>(Buffer in, const SizeBound& out)> decode = {};
  /// Encodes. EINVAL for data that would not decode to itself, and for data for which HDF5's filter function returns 0
  /// (LZF, szip and Blosc, where it does not become smaller): a pipeline skips the filter then if it is optional.
  /// ENOTSUP if no encoder exists for these parameters, ENOMEM. Empty: the filter can only decode.
  std::function<Result<Buffer>(Bytes in)> encode = {};
  /// Maps the size of the encoder's input to the possible sizes of its output. Empty: the size does not change.
  std::function<SizeBound(const SizeBound& decoded)> encoded = {};
  /// The chunk as the next filter encodes it. None: elements and dimensions stay as they are.
  std::optional<ChunkShape> encoded_chunk = {};
};

/// For compressors: incompressible data grows a little.
SizeBound compressed_size(const SizeBound& decoded);
/// For checksums: `bytes` are added to the data.
std::function<SizeBound(const SizeBound&)> adds_bytes(uint64_t bytes);
/// For filters that change the size of elements.
std::function<SizeBound(const SizeBound&)> resizes_elements(uint64_t decoded_size, uint64_t encoded_size);

/// A chunk as it is presented, and as it is stored: with its axes in Variable::stored_order.
ChunkShape shape_of_chunk(const Variable& variable);
ChunkShape shape_of_stored_chunk(const Variable& variable);

/// What a filter may know about the stage and the data that it encodes.
struct StageContext {
  const FilterStage& stage;
  const ChunkShape& chunk;
};

struct Filter {
  uint32_t id = 0;                        // HDF5 filter id; 0: none
  std::string name = {};                  // canonical, lower case, unique
  std::vector<std::string> aliases = {};  // lower case
  std::string codec = {};                 // numcodecs id (case-sensitive); empty: none
  std::string library = {};               // "zstd 1.5.4": the library that decodes; empty if the code is our own
  bool in_libhdf5 = false;                // only libhdf5 implements it (n-bit, scale-offset)
  std::string hdf5_library = {};          // path of the plugin that provides make_coder; empty: built in
  std::string codec_library = {};         // path of the plugin that provides the codec; empty: built in
  bool decodes = true;                    // whether the coders can decode
  bool encodes = true;

  /// Converts a codec's JSON to HDF5 parameters. Reads it liberally ("level": "5" is 5; missing members take numcodecs'
  /// default). `item_size`: bytes of an element, 0 if not fixed. EINVAL. Empty: there is no such mapping.
  std::function<Result<std::vector<uint32_t>>(const Json& codec, uint64_t item_size)> parameters_of = {};
  /// Converts HDF5 parameters to the codec's JSON, as numcodecs writes it. Missing parameters take HDF5's default;
  /// null: a plugin does not understand the parameters. Empty: there is no such mapping.
  std::function<Json(std::span<const uint32_t> parameters)> codec_of = {};

  /// Completes the parameters that a user or a codec's JSON gives to those that the encoder needs, as HDF5's set_local
  /// and netCDF's NCZ_modify_parameters do. Complete parameters do not change. EINVAL. Empty: the given parameters are
  /// complete.
  std::function<Result<std::vector<uint32_t>>(const StageContext&)> working_parameters = {};
  /// The parameters that the metadata of a new Zarr array stores, as NCZ_modify_parameters may change them. EINVAL.
  /// Empty: the given ones.
  std::function<Result<std::vector<uint32_t>>(const StageContext&)> visible_parameters = {};
  /// Checks whether a new pipeline may contain this stage. make_coder is more liberal, because stored pipelines must be
  /// readable. `item_size`: bytes of an element, 0 if unknown. EINVAL with the valid range. Empty: any parameters are
  /// valid, or make_coder checks them all.
  std::function<Result<>(const FilterStage& stage, uint64_t item_size)> check_new = {};
  /// Parses and checks the parameters of a stage, and completes them if needed. EINVAL. Empty: only libhdf5 can decode
  /// it.
  std::function<Result<Coder>(const StageContext&)> make_coder = {};
};

using FilterPtr = std::shared_ptr<const Filter>;

/// Registers a filter (built-in or of a plugin). EINVAL without a name, EEXIST if its id, codec or one of its names is
/// registered already.
Result<> register_filter(Filter filter);
/// Removes a filter by its id; pipelines that use it keep it. ENOENT.
Result<> unregister_filter(uint32_t id);
/// `-o builtin=off`: removes the built-in filters that a plugin can replace (all that have their own HDF5 id), or the
/// one with this name or id. ENOENT if there is none.
void unregister_built_in();
Result<> unregister_built_in(std::string_view name_or_id);

/// Lookups; they load the plugins if no registered filter matches, and return null if none does then. Names are
/// compared case-insensitively and include the aliases.
FilterPtr find_by_id(uint32_t id);
FilterPtr find_by_codec(std::string_view codec);
FilterPtr find_by_name(std::string_view name);
/// As find_by_id(), find_by_codec() and find_by_name(), without loading plugins.
FilterPtr find_registered(uint32_t id);
FilterPtr find_registered(std::string_view codec);
bool is_registered_name(std::string_view name);
/// All registered filters, by id, then by name.
std::vector<FilterPtr> list();

/// The filter of a stage: found by its codec if it has one (also in the form "hdf5:32004"), else by its id.
FilterPtr find_for(const FilterStage& stage);

}  // namespace codecfs::filters
