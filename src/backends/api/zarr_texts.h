#pragma once
// The texts of Zarr v2 metadata files, for whoever shows or is given such texts. What a store's own files say is read
// by backends/zarr/metadata.h, which this leans on.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::zarr_texts {

/// The variable that a .zarray describes. Its dimensions are those of netCDF-C's keys, which were part of it up
/// to 4.9.2.
Result<Variable> parse_zarray(std::string_view text);
/// The names of dimensions that netCDF-C (since 4.9.3) puts into a .zattrs.
std::optional<std::vector<std::string>> nczarr_dimensions(const Json& zattrs);
/// Whether an attribute (or key) is netCDF-C's own.
bool is_nczarr_key(std::string_view name);
/// Nothing, or why this is no .zgroup of Zarr v2.
Result<> check_zgroup(std::string_view text);

}  // namespace codecfs::zarr_texts
