#pragma once
// One known filter: its names in both worlds, how its parameters are told there, and what decodes it.
//
// The same filter is an id with 32-bit parameters in HDF5 ({32015, [3]}) and a JSON object in Zarr
// ({"id": "zstd", "level": 3}). Filters known to one world only have id 0 or an empty codec. The built-in ones are
// listed in codecs/all.inc, each in a file of its own; others may be registered while we run.

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

/// What is known of a size before the bytes are there.
struct SizeBound {
  uint64_t max = 0;                    // bytes; never more
  std::optional<uint64_t> exact = {};  // bytes; where it is determined (then equal to max)

  static SizeBound exactly(uint64_t bytes) { return {bytes, bytes}; }
};

/// A filter with its parameters read and checked, ready for use. Immutable; used from many threads at once.
struct Coder {
  /// Undoes the filter: from the bytes that the encoder gave to those that it took. `out` bounds the latter: a stream
  /// that would grow past it is EIO before memory is taken for it (sizes below it are checked by the pipeline). EIO for
  /// damaged data, ENOMEM. The reason does not name the filter.
  std::function<Result<Buffer>(Buffer in, const SizeBound& out)> decode = {};
  /// Does it. EINVAL for data that the filter cannot encode so that it comes back the same, ENOTSUP where nobody can
  /// with these parameters, ENOMEM. Empty: the filter can only be undone.
  std::function<Result<Buffer>(Bytes in)> encode = {};
  /// Sizes that the encoder may give for what it takes. Empty: it keeps the size.
  std::function<SizeBound(const SizeBound& decoded)> encoded = {};
};

/// For compressors: incompressible data grows a little.
SizeBound compressed_size(const SizeBound& decoded);
/// For checksums: `bytes` more than the data.
std::function<SizeBound(const SizeBound&)> adds_bytes(uint64_t bytes);
/// For filters whose elements change their size.
std::function<SizeBound(const SizeBound&)> resizes_elements(uint64_t decoded_size, uint64_t encoded_size);

/// What a chunk is before the first filter encodes it, and after the last has decoded it.
struct ChunkShape {
  std::optional<uint64_t> bytes = {};  // exact decoded size; none where it depends on the data (object types)
  DataType type = {};                  // of its elements
  std::vector<uint64_t> shape = {};    // elements of the whole array, one number a dimension; empty for a scalar
  std::vector<uint64_t> chunks = {};   // elements of a chunk, one number a dimension
};

ChunkShape shape_of_chunk(const Variable& variable);

/// What a filter is told of where it stands.
struct StageContext {
  const FilterStage& stage;
  const ChunkShape& chunk;
};

struct Filter {
  uint32_t id = 0;                        // HDF5 filter id; 0: none
  std::string name = {};                  // canonical, lower case, unique
  std::vector<std::string> aliases = {};  // lower case
  std::string codec = {};                 // numcodecs id (case-sensitive); empty: none
  std::string library = {};               // "zstd 1.5.4": what decodes it, empty where it is our own code
  bool in_libhdf5 = false;                // only libhdf5's own code can undo it (n-bit, scale-offset)
  std::string hdf5_library = {};          // path of the plugin that brings make_coder; empty: built in
  std::string codec_library = {};         // path of the plugin that brings the codec; empty: built in
  bool decodes = true;                    // what the coders can do
  bool encodes = true;

  /// HDF5 parameters for a codec's JSON, which is read liberally ("level": "5" is 5, what is missing takes numcodecs'
  /// default). `item_size`: bytes of an element, 0 if not fixed. EINVAL. Empty: there is no such mapping.
  std::function<Result<std::vector<uint32_t>>(const Json& codec, uint64_t item_size)> parameters_of = {};
  /// The codec's JSON, as numcodecs writes it, for HDF5 parameters. What is missing takes HDF5's default;
  /// null: a plugin does not understand the parameters. Empty: there is no such mapping.
  std::function<Json(std::span<const uint32_t> parameters)> codec_of = {};

  /// The parameters that the encoder works with, made of those that a user gives or a codec's JSON has: what HDF5's
  /// set_local and netCDF's NCZ_modify_parameters do. Parameters that are complete stay as they are. EINVAL. Empty: all
  /// are given.
  std::function<Result<std::vector<uint32_t>>(const StageContext&)> working_parameters = {};
  /// Whether a new chain may have this stage. Stored chains are read whatever they have, so make_coder is more liberal.
  /// `item_size`: bytes of an element, 0 where it is not known. EINVAL with the valid range. Empty: any parameters, or
  /// make_coder checks them all.
  std::function<Result<>(const FilterStage& stage, uint64_t item_size)> check_new = {};
  /// Reads and checks the parameters of a stage, completing them where that is needed. EINVAL. Empty: only libhdf5 can
  /// decode it.
  std::function<Result<Coder>(const StageContext&)> make_coder = {};
};

using FilterPtr = std::shared_ptr<const Filter>;

/// Adds a filter to the known ones, as the built-in filters and those of plugins are. EINVAL without a name, EEXIST
/// where its id, codec or one of its names is taken.
Result<> register_filter(Filter filter);
/// Forgets it, by its id; what uses it goes on doing so. ENOENT.
Result<> unregister_filter(uint32_t id);
/// `-o builtin=off`: forgets the built-in filters that a plugin can take the place of (all with an HDF5 id of their
/// own), or the one with this name or id. ENOENT where there is no such one.
void unregister_built_in();
Result<> unregister_built_in(std::string_view name_or_id);

/// These give null where none is known; before that, plugins are searched for. Names are compared without regard to
/// case and include the aliases.
FilterPtr find_by_id(uint32_t id);
FilterPtr find_by_codec(std::string_view codec);
FilterPtr find_by_name(std::string_view name);
/// The same among what is registered by now.
FilterPtr find_registered(uint32_t id);
FilterPtr find_registered(std::string_view codec);
bool is_registered_name(std::string_view name);
/// All that are known by now, by id, then by name.
std::vector<FilterPtr> list();

/// The filter that a stage means: by its codec where it has one (also in the form "hdf5:32004"), else by its id.
FilterPtr find_for(const FilterStage& stage);

}  // namespace codecfs::filters
