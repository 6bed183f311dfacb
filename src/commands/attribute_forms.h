#pragma once
// Whether two values of attributes are the same, or the same but for their form. Formats have different forms for one
// value: a list of one number or the number, a boolean or 0 and 1, a float or an integer.

#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::commands {

/// The order of the members of objects does not count.
bool is_same_value(const Json& one, const Json& other);

/// An attribute as netCDF-4 has it: without booleans and lists of one value.
Json netcdf_form(const Json& value);

/// Whether the values are equal as numbers and texts: 5 and 5.0, true and 1, [5] and 5, and a number of 32 bits and the
/// same number of 64 bits.
bool has_same_content(const Attribute& one, const Attribute& other);

}  // namespace codecfs::commands
