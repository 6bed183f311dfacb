#pragma once
// Links that HDF5 has, as JSON, for copies in formats that do not have them. A copy in Zarr keeps them in an attribute
// of the group, which archives and object stores keep, too; in a directory there is also a symbolic link. A note is an
// object with one of these members:
//
//   "soft": "/g/v"                 the path as HDF5 stores it
//   "external": ["o.h5", "/v"]     the file and the path as HDF5 stores them
//   "hard": "../g/v"               another name of a group or variable that is there, by the keys of the store
//   "symlink": "../g/v"            a symbolic link that was found in a store: file names in the new file
//   "unsupported": "..."           a link that no HDF5 file can have: the reason
//
// and "link", the text of the symbolic link that a mount shows. Texts that are not UTF-8 are in base64, and the note
// has "is_base64": true.
//
// A committed type, which is a member of a group, has a note with "type", which describes it as kStoredTypes does. New
// variables of an equal type have this one. (netCDF-C finds the name of a variable's type in this way, too.)
//
// A note has "escaped": true if the key is the escaped form of the name in HDF5 (backends/api/names.h), which the store
// could not have. Groups and variables with such a key have a note with this member alone.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs {

/// A JSON object as text: the notes of a group by the keys of the links. xarray hides names that begin with "_nc".
inline constexpr char kStoredLinks[] = "_nc_hdf5_links";
/// The member of a note of a committed type.
inline constexpr char kNotedType[] = "type";

/// None if there are no notes. `notes`: their names are file names.
std::optional<Attribute> stored_links(std::span<const Attribute> notes);
/// What such an attribute says; an empty object if it is damaged.
Json parse_stored_links(const Json& value);

/// Notes of a soft and an external link.
Json soft_link_note(const std::string& path);
Json external_link_note(const std::string& file, const std::string& path);
/// Marks the note of what has this file name in HDF5, if that is the escaped form of its name.
void note_escape(Json& note, const std::string& file_name);
/// Whether the note has such a mark.
[[nodiscard]] bool is_escape_noted(const Json& note);
/// The note of a group or variable whose name is escaped.
Json escape_note();
/// Whether it is the note of a link, and not of a committed type, or escape_note().
[[nodiscard]] bool is_of_link(const Json& note);

/// The texts of the member `key` of such a note, one or two; empty if it has none, or is damaged.
std::vector<std::string> texts_of_note(const Json& note, const char* key);

}  // namespace codecfs
