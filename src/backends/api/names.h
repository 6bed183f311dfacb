#pragma once
// Maps the names of a dataset's objects to file names. Nearly all are equal. Names that cannot be file names or that
// codecfs uses itself (empty, ".", "..", with '/' or NUL, not UTF-8, .zarray, .zgroup, .zattrs, .zmetadata, zarr.json,
// .codecfs) are percent-escaped, and so is each name that equals the escaped form of another one. All other names keep
// their '%': "100%" and "a%41", as no name has "a%41" as its escaped form. If the escaped form is over 255 bytes, it is
// truncated and ends in "%~" and 16 hex digits of its hash. Such a name can only be found by escaping the names of all
// members of the group and comparing.
//
//   name       file name
//   a%41       a%41         "aA" is not escaped
//   a/b        a%2Fb
//   a%2Fb      a%252Fb      because a%2Fb is the file name of a/b
//   a%252Fb    a%25252Fb    because a%252Fb is the file name of a%2Fb

#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

std::string escape_name(std::string_view name);
/// As escape_name(), for the name of an attribute or of a member of a compound, which JSON and extended attributes
/// show: only names that are not UTF-8, and those that equal an escaped form, are escaped, and none is truncated.
std::string escape_attribute_name(std::string_view name);
/// The name of which this is shown; itself where it is the escaped form of none.
std::string unescape_attribute_name(std::string_view shown);
/// The object's name, so that escape_name() produces this file name; none if there is no such name, or it was
/// truncated.
std::optional<std::string> unescape_name(std::string_view file_name);
/// The file name in HDF5 of what a conversion to Zarr stored under that file name: of the key "d%E9bit", which has the
/// file name "d%25E9bit", this is "d%E9bit". Other names are as they were.
std::string name_before_copy(std::string_view file_name);
/// Whether escape_name() truncated the name, so that only a search finds the object.
bool is_cut_name(std::string_view file_name);
/// Appends a suffix to a file name, which is truncated if both together exceed 255 bytes.
std::string with_suffix(std::string_view file_name, std::string_view suffix);
/// Whether netCDF-C accepts this as the name of a variable, group, dimension or attribute. Source: netcdf-c,
/// libdispatch/dstring.c (NC_check_name).
bool is_netcdf_name(std::string_view name);

}  // namespace codecfs
