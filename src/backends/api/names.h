#pragma once
// Maps the names of a dataset's objects to file names. Most are equal. Names that cannot be file names or that codecfs
// uses itself (empty, ".", "..", with '/' or NUL, not UTF-8, .zarray, .zgroup, .zattrs, .zmetadata, zarr.json,
// .codecfs) are percent-escaped. A '%' before two hex digits is escaped too, so that unescape_name() is the inverse. If
// the escaped form is over 255 bytes, it is truncated and ends in "%~" and 16 hex digits of its hash. Such a name can
// only be found by escaping the names of all members of the group and comparing.

#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

std::string escape_name(std::string_view name);
/// The object's name; none if escape_name() cannot have produced this file name, or has truncated it.
std::optional<std::string> unescape_name(std::string_view file_name);
/// Whether escape_name() truncated the name, so that only a search finds the object.
bool is_cut_name(std::string_view file_name);
/// Appends a suffix to a file name, which is truncated if both together exceed 255 bytes.
std::string with_suffix(std::string_view file_name, std::string_view suffix);

}  // namespace codecfs
