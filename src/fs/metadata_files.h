#pragma once
// The texts of the small files beside the chunks. The decoded tree is an uncompressed Zarr v2 store, so `.zarray` tells
// of no compressor, and of filters only the object codec that stays in the bytes.

#include <span>
#include <string>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::fs {

Json zarray_json(const Variable& variable);
/// Attributes with "_ARRAY_DIMENSIONS" last.
Json zattrs_json(const Variable& variable);
Json zattrs_json(std::span<const Attribute> attributes);
Json zgroup_json();
/// As a file holds it: indented, with a newline at the end.
std::string file_text(const Json& json);

}  // namespace codecfs::fs
