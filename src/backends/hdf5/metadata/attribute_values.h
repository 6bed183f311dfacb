#pragma once
// Reads the attributes of an HDF5 object as JSON.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// Larger attributes (in bytes) are omitted, with a warning.
inline constexpr uint64_t kMaxAttribute = uint64_t{16} << 20;

/// A JSON list of the names of its holder's attributes whose text is JSON: HDF5 has no other form for objects, and for
/// lists of values of several kinds. Other programs read the texts; in views they are the objects and lists again.
/// Hidden in views.
inline constexpr char kJsonAttributes[] = "_codecfs_json_attributes";
/// A longer list (in bytes) is taken as damaged.
inline constexpr size_t kMaxJsonAttributes = size_t{1} << 20;

/// The value of CLASS in dimension scales. On a dataset that HDF5 takes for none, as it has another type, it is hidden,
/// too: in a copy it would make a scale.
inline constexpr char kScaleClass[] = "DIMENSION_SCALE";

struct AttributeRules {
  bool netcdf = false;  // the file is netCDF-4: hide its internal attributes; arrays of one element are single values
  bool scale = false;   // the object is a dimension scale: hide CLASS and NAME
  bool group = false;   // the object is a group: _ARRAY_DIMENSIONS and kPhonyDimensions are attributes like others
  bool native_complex = false;  // takes_native_complex()
};

/// All visible attributes, in creation order if that is stored, else by name, as tell_floats() leaves them. Attributes
/// that have no JSON form (references) or cannot be read are omitted: logged, with `object` for their holder, and added
/// to `left_out` if it is not null. Under a LibraryLock.
Result<std::vector<Attribute>> read_attributes(hid_t holder, const AttributeRules& rules, std::string_view object,
                                               uint64_t file_bytes, std::vector<LeftOutAttribute>* left_out = nullptr);

/// Whether an attribute of this name is internal and not shown.
bool is_hidden_attribute(std::string_view name, const AttributeRules& rules);
/// The value of an open attribute; none if it has no JSON form. EIO, EFBIG. Under a LibraryLock.
Result<std::optional<Json>> read_attribute(hid_t attribute, const AttributeRules& rules);
/// The names that `kJsonAttributes` lists, as views show them; none if there is no list. EIO, EFBIG if it cannot be
/// read. Under a LibraryLock.
Result<std::set<std::string>> json_attributes(hid_t holder);
/// The names in such a list; none if it is damaged.
std::set<std::string> parse_json_attributes(const Json& list);
/// The object or list whose text an attribute on that list has; another value as it is.
Json value_of_text(Json text);
/// The HDF5 names of all attributes, in the order of read_attributes(). Under a LibraryLock.
Result<std::vector<std::string>> attribute_names(hid_t holder);

/// The value of an attribute that holds one string; empty if it does not exist or has another type.
std::string text_attribute(hid_t holder, const char* name);
/// The elements of an integer attribute (at most 64); empty if it does not exist or has another type.
std::vector<int> integer_attribute(hid_t holder, const char* name);

}  // namespace codecfs::hdf5
