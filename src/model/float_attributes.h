#pragma once
// NaN and infinities in attributes. JSON has no such numbers, and parsers that keep to it (JavaScript, Java, Rust,
// tensorstore for Zarr v3) refuse a file that has them bare. So they are texts, as in a fill_value of Zarr, and one
// more attribute says which attributes have texts that are numbers:
//
//   {"valid_range": [0, "Infinity"], "_codecfs_float_attributes": "[\"valid_range\"]"}
//
// It is a text, and no list, as xarray writes every attribute into netCDF, which has no lists of one text.

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/variable.h"

namespace codecfs {

/// A JSON list as text, with the names of the attributes in which "NaN", "Infinity" and "-Infinity" are numbers.
inline constexpr char kFloatAttributes[] = "_codecfs_float_attributes";

/// The value with texts for NaN and infinities, at any depth; and the reverse, which takes each such text for a number.
Json with_float_texts(const Json& value);
Json with_floats(const Json& value);

/// What kFloatAttributes lists; empty if there is no such attribute, or it has another value.
std::set<std::string> float_attributes(std::span<const Attribute> attributes);

/// Replaces numbers by texts in all attributes but `except`, and lists the attributes. One that also has such a text
/// that is no number stays as it is. `attributes` may have a list already.
void tell_floats(std::vector<Attribute>& attributes, std::string_view except);
/// Undoes tell_floats(): the texts are numbers, and there is no list.
void restore_floats(std::vector<Attribute>& attributes);

}  // namespace codecfs
