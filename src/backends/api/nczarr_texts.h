#pragma once
// The metadata files of a store in the form of netCDF-C 4.9.3 and later (NCZarr), for code that makes one as a whole.
// Pure functions.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/object.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::nczarr_texts {

/// EINVAL with the reason if netCDF-C cannot have a variable of this type and fill value: it refuses a whole store for
/// one such array.
Result<> check_variable(const Variable& variable);
/// EINVAL if it is not the name of a variable, group or dimension in netCDF.
Result<> check_name(std::string_view name);

/// How netCDF-C names a dimension that it makes for arrays without names.
std::string anonymous_dimension(uint64_t length);

struct ArrayFiles {
  std::string zarray;
  std::string zattrs;
};
/// `zarray`: of the same array in plain Zarr. `references`: the paths of its dimensions ("/g/x"). EINVAL.
Result<ArrayFiles> array_files(std::string_view zarray, const Variable& variable,
                               std::span<const std::string> references);

struct Group {
  std::vector<Attribute> attributes;
  std::vector<GroupDimension> dimensions;
  std::vector<std::string> arrays;
  std::vector<std::string> groups;
};
/// The .zattrs of a group. EINVAL.
Result<std::string> group_zattrs(const Group& group, bool is_root);

}  // namespace codecfs::nczarr_texts
