#pragma once
// The texts of the metadata files beside the chunks. The decoded tree is an uncompressed Zarr v2 store: `.zarray` has
// no compressor, and no filters except for the object codec, with which decoded chunks are still encoded.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/object.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::fs {

Json zarray_json(const Variable& variable);
/// .zarray for chunks that are encoded with this pipeline of codecs.
Json zarray_json(const Variable& variable, std::span<const FilterStage> chain);
/// Whether this is the attribute _FillValue, with the fill_value of .zarray, from which readers of Zarr v2 take it.
bool repeats_fill(const Variable& variable, const Attribute& attribute);
/// Attributes with "_ARRAY_DIMENSIONS" last. Of an NCZarr array with what netCDF-C adds, so that it reads a copy with
/// all types. Elsewhere without a _FillValue that is NaN or infinite and repeats the fill_value: JSON has no such
/// numbers.
Json zattrs_json(const Variable& variable);
Json zattrs_json(std::span<const Attribute> attributes);
/// Adds what Zarr has no form for and a new variable of HDF5 or NCZarr can have: types of attributes and the dimensions
/// of groups, in netCDF-C's form; to a .zarray "_maxshape", and "_fillmark" if the fill value does not mark missing
/// data.
void put_types(Json& zattrs, std::span<const Attribute> attributes);
void put_members(Json& zattrs, const NczarrMembers& members, bool is_root);
void put_dimensions(Json& zattrs, std::span<const GroupDimension> dimensions);
void put_limits(Json& zarray, const Variable& variable);
Json zgroup_json();
/// Instead of attributes that cannot be read: the attribute "_Error". Readers take the data all the same.
Json unreadable_json(const Error& error);
/// The text of a file: indented, with a newline at the end.
std::string file_text(const Json& json);
/// From now on file_text() does not escape what is not ASCII, in this process.
void show_utf8_in_files();

/// The variable that a written .zarray describes: type, grid, fill value, object codec, and max_shape if it has
/// "_maxshape" (a list of lengths, null for an unlimited dimension), is_fill_unmarked if "_fillmark" is false;
/// dimension names if netCDF-C wrote them. EINVAL with a reason for what this tree does not support: Fortran order,
/// another separator, and a compressor, except in views with encoded chunks (`with_codecs`), for which it is returned
/// in Variable::filters.
Result<Variable> parse_zarray(std::string_view text, bool with_codecs = false);

struct WrittenAttributes {
  std::vector<Attribute> attributes;                   // without netCDF-C's own keys
  std::optional<std::vector<std::string>> dimensions;  // from kDimensions, if that is a list of names
  std::vector<GroupDimension> defined = {};            // by a group, in netCDF-C's form
};
/// The attributes in a JSON object. EINVAL.
Result<WrittenAttributes> written_attributes(Json object);
/// EINVAL.
Result<WrittenAttributes> parse_zattrs(std::string_view text);
/// EINVAL if it is not a .zgroup of Zarr v2.
Result<> check_zgroup(std::string_view text);

/// Interprets the value of setfattr for an attribute: text if the attribute currently is text. Otherwise a JSON number,
/// list, true, false, null or quoted string is parsed, an object if the attribute currently is an object or a list, and
/// anything else is text.
Json attribute_value(std::string_view value, const Json* now);

}  // namespace codecfs::fs
