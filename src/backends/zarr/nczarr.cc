#include "backends/zarr/nczarr.h"

#include <algorithm>

namespace codecfs::zarr {
namespace {

/// The member of an object, null where there is none.
const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? nullptr : &*found;
}

std::optional<std::vector<std::string>> dimension_names(const Json& array) {
  for (const char* key : {"dimension_references", "dimrefs"}) {
    const auto found = array.find(key);
    if (found == array.end() || !found->is_array()) continue;
    if (!std::ranges::all_of(*found, [](const Json& reference) { return reference.is_string(); })) continue;
    std::vector<std::string> names;
    for (const Json& reference : *found) {
      const auto& path = reference.get_ref<const std::string&>();
      names.push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0: all of it
    }
    return names;
  }
  return std::nullopt;
}

bool says_scalar(const Json& array) {
  const auto storage = array.find("storage");
  if (storage != array.end() && *storage == "scalar") return true;
  const auto scalar = array.find("scalar");
  return scalar != array.end() && (*scalar == 1 || *scalar == true || *scalar == "1");
}

}  // namespace

std::optional<NczarrArray> parse_nczarr(const Json& zarray, const Json& zattrs, const Json& nczvar) {
  const Json* array = member(zattrs, "_nczarr_array");
  if (array == nullptr) array = member(zarray, "_nczarr_array");
  NczarrArray result;
  if (array == nullptr) {
    array = member(zarray, "_NCZARR_ARRAY");
    result.has_wrong_big_endian = array != nullptr;
    if (array == nullptr && nczvar.is_object()) array = &nczvar;
    result.has_u1_characters = true;
  }
  if (array == nullptr) return std::nullopt;
  result.dimensions = dimension_names(*array);
  result.is_scalar = says_scalar(*array);
  return result;
}

bool lists_members(const Json& metadata) {
  return member(metadata, "_nczarr_group") != nullptr || member(metadata, "_NCZARR_GROUP") != nullptr;
}

bool is_nczarr_key(std::string_view name) { return name.starts_with("_nczarr_") || name.starts_with("_NCZARR_"); }

}  // namespace codecfs::zarr
