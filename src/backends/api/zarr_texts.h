#pragma once
// Parses the texts of Zarr metadata files for the code that shows them or lets users edit them.
// backends/zarr/metadata.h uses it to parse the files of a store.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/object.h"
#include "base/result.h"
#include "filters/core/zarr3_codecs.h"
#include "model/variable.h"

namespace codecfs::zarr_texts {

/// The variable that a .zarray describes. Its dimension names are those of netCDF-C's keys, which .zarray contained up
/// to netCDF-C 4.9.2.
Result<Variable> parse_zarray(std::string_view text);
/// The dimension names that netCDF-C (since 4.9.3) stores in a .zattrs.
std::optional<std::vector<std::string>> nczarr_dimensions(const Json& zattrs);
/// The dimensions that netCDF-C (since 4.9.3) stores in the .zattrs of a group.
std::vector<GroupDimension> group_dimensions(const Json& zattrs);
/// Attribute::type of an attribute, if netCDF-C has recorded it in this .zattrs.
std::string attribute_type(const Json& zattrs, std::string_view name);
/// Whether netCDF-C uses an attribute (or key) internally.
bool is_nczarr_key(std::string_view name);
/// Succeeds, or returns why the text is not a .zgroup of Zarr v2.
Result<> check_zgroup(std::string_view text);

struct ChunkCodecs {
  bool is_sharded = false;
  std::vector<uint64_t> chunks;  // shape of the chunks, in shards that of the innermost
  filters::Zarr3Codecs codecs;   // of these chunks, with the order of all levels
};
/// The codecs of a zarr.json. `shape`, `chunks`: of the array and its chunk grid. EINVAL if they are malformed or do
/// not fit. What is valid but cannot be decoded is in Zarr3Codecs::unreadable.
Result<ChunkCodecs> parse_chunk_codecs(const Json& codecs, const DataType& type, const std::vector<uint64_t>& shape,
                                       const std::vector<uint64_t>& chunks);

}  // namespace codecfs::zarr_texts
