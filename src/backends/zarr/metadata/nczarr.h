#pragma once
// NCZarr: what netCDF-C adds to Zarr v2, in every form that a release has written. Pure functions of JSON: no I/O.
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
// netCDF-C finds what is in a group by these lists, and opens nothing of a store in which one of them is wrong: what is
// listed must be there, and the length of a dimension must be that of all arrays that have it.

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

enum class NczarrForm { objects, upper_keys, lower_keys, attributes };

struct NczarrArray {
  NczarrForm form = NczarrForm::attributes;
  std::optional<std::vector<std::string>> references;  // paths: "/x", "/g/z"
  std::optional<std::vector<std::string>> dimensions;  // last parts of the references
  bool is_scalar = false;                              // stored as shape [1]
  bool has_u1_characters = false;                      // up to 4.9.0: characters are labelled "<U1", one byte each
  bool has_wrong_big_endian = false;  // up to 4.9.2: what is labelled big-endian is stored little-endian
};

/// None where the array was not written as NCZarr. Any of the three may be null.
std::optional<NczarrArray> parse_nczarr(const Json& zarray, const Json& zattrs, const Json& nczvar);

struct NczarrDimension {
  std::string name;
  uint64_t length = 0;
  bool is_unlimited = false;
};

struct NczarrGroup {
  NczarrForm form = NczarrForm::attributes;
  std::vector<NczarrDimension> dimensions;
  std::vector<std::string> arrays;
  std::vector<std::string> groups;

  NczarrDimension* find(std::string_view dimension);
  std::vector<std::string>& members(EntryKind kind) { return kind == EntryKind::variable ? arrays : groups; }
};

/// None where netCDF-C keeps no lists of the group. Any of the three may be null. What is no name or length in a list
/// is left out.
std::optional<NczarrGroup> parse_nczarr_group(const Json& zgroup, const Json& zattrs, const Json& nczgroup);

/// The file of a group, and of an array, in which a form keeps its own.
const char* nczarr_group_file(NczarrForm form);
const char* nczarr_array_file(NczarrForm form);

/// Puts the lists into the JSON of that file. What else it holds stays.
void put_nczarr_group(Json& file, const NczarrGroup& group);
/// Puts the dimensions of an array into the JSON of that file.
void put_nczarr_array(Json& file, NczarrForm form, std::span<const std::string> references);

/// Whether netCDF-C could open an array that is made in a group of this form: it opens nothing of a store in which it
/// meets a type that it does not have. Up to 4.9.2 it cannot read all that it labels.
bool can_be_nczarr(const Variable& variable, NczarrForm form);
/// Whether it takes this for the name of a variable, group or dimension.
bool is_netcdf_name(std::string_view name);

/// The value of an attribute as the type says that netCDF-C has noted for it: it writes 1 for a float of 1, "NaN" for
/// one that is none, and 5 for the text "5". What is noted otherwise stays as it is.
Json typed_attribute(const Json& value, const Json* type);
/// The types of attributes that are noted in a .zattrs, or in a .nczattr (which may be null); null: there are none.
const Json* attribute_types(const Json& zattrs, const Json& nczattr);
/// The type of one of them, null where none is noted.
const Json* attribute_type(const Json* types, std::string_view name);

/// The fill value of a .zarray as netCDF-C means it: it prints doubles with six digits, also the one that it has put
/// into every chunk.
Json meant_fill(const DataType& type, const Json& fill_value);

/// Whether an attribute (or key) is netCDF-C's own.
bool is_nczarr_key(std::string_view name);

}  // namespace codecfs::zarr
