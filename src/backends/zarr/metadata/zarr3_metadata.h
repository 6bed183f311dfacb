#pragma once
// Parses the metadata of Zarr v3: zarr.json, one file for each group and array. Pure functions of its text: no I/O.
// Source: Zarr v3 core specification.

#include <string_view>
#include <vector>

#include "backends/api/object.h"
#include "backends/zarr/metadata/metadata.h"
#include "base/result.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::zarr {

inline constexpr const char* kZarrJson = "zarr.json";

/// Whether the text describes a group or an array. EIO, EOPNOTSUPP for another zarr_format.
Result<EntryKind> zarr3_node_type(std::string_view text);

/// EIO with the error; EOPNOTSUPP for a chunk grid or a storage transformer that is not known, so that it is not known
/// which chunks are stored. If chunks alone cannot be read (an unknown data type or codec), Variable::unreadable is
/// set.
///
/// Variable::fill_value, which is for views of Zarr v2, is null unless the attribute _FillValue has the same value:
/// readers of v2 take it for the value that marks missing data.
Result<Array> parse_zarr3_array(std::string_view text);

/// The attributes of a group. EIO.
Result<std::vector<Attribute>> parse_zarr3_group(std::string_view text);

/// Whether two texts describe the same chunks: they differ at most in attributes and names of dimensions.
bool describe_same_chunks(std::string_view one, std::string_view other);

}  // namespace codecfs::zarr
