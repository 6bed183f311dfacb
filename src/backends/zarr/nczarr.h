#pragma once
// NCZarr: what netCDF-C adds to Zarr v2, in every form that a release has written.
//
//   4.8.0           object .nczvar (or .nczarray)         {"dimrefs": ["/x"], ...}
//   4.8.1 - 4.9.0   .zarray, key _NCZARR_ARRAY            {"dimrefs": ["/x"], "storage": "scalar|contiguous|..."}
//   4.9.1 - 4.9.2   .zarray, key _nczarr_array            the same
//   4.9.3 -         .zattrs, key _nczarr_array            {"dimension_references": ["/x"], "scalar": 1, "storage": ...}

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/json.h"

namespace codecfs::zarr {

struct NczarrArray {
  std::optional<std::vector<std::string>> dimensions;  // last parts of the references
  bool is_scalar = false;                              // stored as shape [1]
  bool has_u1_characters = false;                      // up to 4.9.0: characters are labelled "<U1", one byte each
  bool has_wrong_big_endian = false;  // 4.8.1 to 4.9.0: what is labelled big-endian is stored little-endian
};

/// None where the array was not written as NCZarr. Any of the three may be null.
std::optional<NczarrArray> parse_nczarr(const Json& zarray, const Json& zattrs, const Json& nczvar);

/// Whether a .zgroup or the .zattrs of a group holds netCDF-C's list of what is in the group.
bool lists_members(const Json& metadata);

/// Whether an attribute (or key) is NCZarr's own.
bool is_nczarr_key(std::string_view name);

}  // namespace codecfs::zarr
