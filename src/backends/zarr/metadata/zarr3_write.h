#pragma once
// Creates and changes zarr.json, the metadata file of Zarr v3. Pure functions of its text: no I/O. Members that are not
// changed keep their value and order; the layout is zarr-python's (indented by two).

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::zarr {

/// The zarr.json of a new group.
std::string print_zarr3_group();
/// The zarr.json of a new array. EINVAL if Zarr v3 cannot represent it, and the errors of complete_chain().
Result<std::string> print_zarr3_array(const Variable& variable);

/// Changes the shape, or the names of the dimensions; none: removes them. EIO if the text is not valid.
Result<std::string> with_zarr3_shape(std::string_view text, std::span<const uint64_t> shape);
Result<std::string> with_zarr3_dimensions(std::string_view text, const std::optional<OptionalNames>& names);
/// Replaces the codecs of the chunks; of a sharded array those of the innermost ones. `array`: the one that the text
/// describes. EINVAL if Zarr v3 cannot represent them.
Result<std::string> with_zarr3_chain(std::string_view text, const Array& array, std::span<const FilterStage> chain);
/// Replaces the shards and the codecs by those of `wanted`, which has the type and the grid of the array. EINVAL if the
/// shards cannot be written, and the errors of complete_chain().
Result<std::string> with_zarr3_sharding(std::string_view text, const Variable& wanted);
/// Creates, replaces and removes attributes; returns none if nothing changes. `type`: of an array, none for a group.
/// ENODATA, EINVAL.
Result<std::optional<std::string>> with_zarr3_attributes(std::string_view text, const AttributeChange& change,
                                                         const DataType* type);

/// Replaces the consolidated metadata of the root by `entries`: the JSON of every zarr.json by its path. None if there
/// is none, or in an unknown form.
Result<std::optional<std::string>> with_zarr3_entries(std::string_view text, Json entries);

}  // namespace codecfs::zarr
