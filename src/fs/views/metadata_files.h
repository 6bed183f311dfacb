#pragma once
// The texts of the small files beside the chunks. The decoded tree is an uncompressed Zarr v2 store, so `.zarray` tells
// of no compressor, and of filters only the object codec that stays in the bytes.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::fs {

Json zarray_json(const Variable& variable);
/// The same where chunks are encoded with this chain of codecs.
Json zarray_json(const Variable& variable, std::span<const FilterStage> chain);
/// Attributes with "_ARRAY_DIMENSIONS" last.
Json zattrs_json(const Variable& variable);
Json zattrs_json(std::span<const Attribute> attributes);
Json zgroup_json();
/// As a file holds it: indented, with a newline at the end.
std::string file_text(const Json& json);

/// The variable that a written .zarray asks for: type, grid, fill value, object codec, and max_shape where it has
/// "_maxshape" (a list of lengths, null for a dimension without limit). Dimension names where netCDF-C put them there.
/// EINVAL with a reason for what this tree has no place for: Fortran order, another separator, and a compressor but
/// for where chunks are shown `with_codecs`: Variable::filters then.
Result<Variable> parse_zarray(std::string_view text, bool with_codecs = false);

struct WrittenAttributes {
  std::vector<Attribute> attributes;                   // without netCDF-C's own keys
  std::optional<std::vector<std::string>> dimensions;  // of "_ARRAY_DIMENSIONS"
};
/// EINVAL.
Result<WrittenAttributes> parse_zattrs(std::string_view text);
/// EINVAL where it is no .zgroup of Zarr v2.
Result<> check_zgroup(std::string_view text);

/// What a value means that somebody gives an attribute by setfattr: text stays text where the attribute is text now;
/// else a JSON number, list, true, false, null or quoted text is that, and anything else is text.
Json attribute_value(std::string_view value, const Json* now);

}  // namespace codecfs::fs
