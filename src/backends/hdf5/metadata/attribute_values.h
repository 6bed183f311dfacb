#pragma once
// The attributes of an HDF5 object as JSON.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// Attributes of more bytes than this are left out, with a warning that says so.
inline constexpr uint64_t kMaxAttribute = uint64_t{16} << 20;

struct AttributeRules {
  bool netcdf = false;  // the file is netCDF-4: its bookkeeping is hidden, arrays of one element are single values
  bool scale = false;   // the object is a dimension scale: CLASS and NAME are hidden
};

/// All attributes to be shown, in creation order where that is kept, else by name. Those that have no JSON form
/// (references) or cannot be read are left out with a note in the log; `object` names their holder there.
/// Under a LibraryLock.
Result<std::vector<Attribute>> read_attributes(hid_t holder, const AttributeRules& rules, std::string_view object);
/// Whether reading them takes so long that it is to be done only for who wants them. Under a LibraryLock.
bool has_many_attributes(hid_t holder);

/// Whether an attribute of this name is bookkeeping that is not shown.
bool is_hidden_attribute(std::string_view name, const AttributeRules& rules);
/// The value of an open attribute; none where it has no JSON form. EIO, EFBIG. Under a LibraryLock.
Result<std::optional<Json>> read_attribute(hid_t attribute, const AttributeRules& rules);
/// The names of all attributes, in the order of read_attributes(), as HDF5 has them. Under a LibraryLock.
Result<std::vector<std::string>> attribute_names(hid_t holder);

/// The text of a string attribute that holds one; empty where there is none of that name or it is something else.
std::string text_attribute(hid_t holder, const char* name);
/// The elements of an integer attribute (at most 64); empty where there is none of that name or it is something else.
std::vector<int> integer_attribute(hid_t holder, const char* name);

/// Bytes of an HDF5 string as UTF-8: as they are if they are that, else read as Latin-1.
std::string as_utf8(std::string_view bytes);

}  // namespace codecfs::hdf5
