#pragma once
// File names for the names of a dataset's objects. Most are the same. What a file name cannot be or what we use
// ourselves (empty, ".", "..", with '/' or NUL, not UTF-8, .zarray, .zgroup, .zattrs, .zmetadata, .codecfs) is
// percent-escaped; a
// '%' that two hex digits follow is escaped too, so that unescape_name() gives the name back. A name whose escaped form
// is over 255 bytes is cut and ends in "%~" and 16 hex digits of its hash: such a name is found by escaping the group's
// names and comparing.

#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

std::string escape_name(std::string_view name);
/// The object's name; none where the file name is not one that escape_name() makes, or was cut.
std::optional<std::string> unescape_name(std::string_view file_name);
/// Whether escape_name() had to cut: then only a search can find the object.
bool is_cut_name(std::string_view file_name);
/// A file name with something behind it, cut before that where both are over 255 bytes.
std::string with_suffix(std::string_view file_name, std::string_view suffix);

}  // namespace codecfs
