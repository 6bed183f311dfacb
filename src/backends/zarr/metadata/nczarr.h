#pragma once
// NCZarr: netCDF-C's additions to Zarr v2, in the form of each release. Pure functions of JSON: no I/O.
//
//   release          an array                                     a group
//   4.8.0            object .nczvar (later .nczarray)             object .nczgroup
//                    {"dimrefs": ["/x"], "storage": ...}          {"dims": {"x": 6}, "vars": [...], "groups": [...]}
//   4.8.1 - 4.9.0    .zarray, key _NCZARR_ARRAY, the same         .zgroup, key _NCZARR_GROUP, the same
//   4.9.1 - 4.9.2    .zarray, key _nczarr_array, the same         .zgroup, key _nczarr_group, the same
//   4.9.3 -          .zattrs, key _nczarr_array                   .zattrs, key _nczarr_group
//                    {"dimension_references": ["/x"],             {"dimensions": {"x": 6, "t": {"size": 5,
//                    "scalar": 1, "storage": "chunked"}           "unlimited": 1}}, "arrays": [...], "groups": [...]}
//
// netCDF-C finds the members of a group through these lists, and refuses the whole store if one of them is wrong: each
// listed member must exist, and the length of a dimension must be that of all arrays that use it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::zarr {

/// netCDF-C's name for a dimension that it creates for an array without names; its length follows.
inline constexpr const char* kAnonymousDimension = "_Anonymous_Dim_";

/// The name in _ARRAY_DIMENSIONS with which netCDF-C marks a scalar.
inline constexpr const char* kScalarDimension = "_scalar_";

enum class NczarrForm { objects, upper_keys, lower_keys, attributes };

struct NczarrArray {
  NczarrForm form = NczarrForm::attributes;
  std::optional<std::vector<std::string>> references;  // paths: "/x", "/g/z"
  std::optional<std::vector<std::string>> dimensions;  // last components of the references
  bool is_scalar = false;                              // stored as shape [1]
  bool has_u1_characters = false;                      // up to 4.9.0: characters have dtype "<U1" but one byte each
  bool has_wrong_big_endian = false;                   // up to 4.9.2: data declared big-endian is stored little-endian
};

/// None if the array is not an NCZarr array. Any argument may be null.
std::optional<NczarrArray> parse_nczarr(const Json& zarray, const Json& zattrs, const Json& nczvar);

using NczarrDimension = GroupDimension;

struct NczarrGroup {
  NczarrForm form = NczarrForm::attributes;
  std::vector<NczarrDimension> dimensions;
  std::vector<std::string> arrays;
  std::vector<std::string> groups;

  NczarrDimension* find(std::string_view dimension);
  std::vector<std::string>& members(EntryKind kind) { return kind == EntryKind::variable ? arrays : groups; }
};

/// None if netCDF-C has no lists for the group. Any argument may be null. Invalid names and lengths in a list are
/// omitted.
std::optional<NczarrGroup> parse_nczarr_group(const Json& zgroup, const Json& zattrs, const Json& nczgroup);

/// The file in which this form stores the members of a group, or the dimensions of an array.
const char* nczarr_group_file(NczarrForm form);
const char* nczarr_array_file(NczarrForm form);

/// Puts the lists into the JSON of that file. Other members do not change.
void put_nczarr_group(Json& file, const NczarrGroup& group);
/// Puts what marks a store as netCDF-C's into the .zattrs of its root (NczarrForm::attributes).
void put_superblock(Json& zattrs);
/// Puts the dimensions of an array into the JSON of that file.
void put_nczarr_array(Json& file, NczarrForm form, std::span<const std::string> references);

/// Why netCDF-C cannot open an array created in a group of this form: it refuses a store with a type that it does not
/// support, and up to 4.9.2 it cannot read all types that it writes. EINVAL.
Result<> check_nczarr(const Variable& variable, NczarrForm form);
/// The text that is the fill value of fixed-length text, as netCDF-C stores it. None: it has no form in JSON.
std::optional<std::string> text_fill(const Variable& variable);
/// Whether it is the fill value that netCDF-C gives to variables without _FillValue.
bool is_default_fill(const DataType& type, std::span<const std::byte> fill);

/// Converts an attribute value to the type that netCDF-C has recorded for it: netCDF-C writes 1 for the float 1.0,
/// "NaN" for a NaN, and 5 for the text "5". Returns other values unchanged.
Json typed_attribute(const Json& value, const Json* type);
/// The recorded types of attributes in a .zattrs, or in a .nczattr (which may be null); null if there are none.
const Json* attribute_types(const Json& zattrs, const Json& nczattr);
/// Attribute::type for a recorded type, which may be null.
std::string known_attribute_type(const Json* type);
/// Records the type of an attribute, if it has one, in the .zattrs of an array or group of netCDF-C. Its value becomes
/// one that netCDF-C reads with this type.
void put_typed_attribute(Json& zattrs, const Attribute& attribute);
/// The recorded type of one attribute; null if there is none.
const Json* attribute_type(const Json* types, std::string_view name);

/// The fill value that netCDF-C means in a .zarray: 4.8.0 writes a list of one number, and each release doubles with
/// only six digits, including the default fill value that every chunk contains exactly.
Json meant_fill(const DataType& type, const Json& fill_value);

/// Prints a metadata file. Those with keys of netCDF-C have characters beyond ASCII as they are: it does not know \u.
std::string print_file(const Json& json, int indent);

/// Whether netCDF-C uses an attribute (or key) internally.
bool is_nczarr_key(std::string_view name);

}  // namespace codecfs::zarr
