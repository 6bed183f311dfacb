#pragma once
// numpy's other names of types and numbers. Zarr v2 writes types as "<i4"; numpy, and with it numcodecs and zarr-python
// 2, also reads names without a byte order, with the native one, and words. Source: numpy, "Data type objects",
// "Specifying and constructing data types".

#include <optional>
#include <string_view>

#include "base/result.h"
#include "model/data_type.h"
#include "model/json_value.h"

namespace codecfs {

/// What parse_dtype() takes, and texts that numpy takes on a little-endian machine: "i4", "=i4", "i", ">d", "int32",
/// "double", "datetime64[ns]". Not long doubles, whose format differs between machines. EINVAL as of parse_dtype().
Result<DataType> parse_numpy_type(const Json& dtype);

/// The float that is no number or infinite which numpy reads in a text: "NaN", "nan", "Infinity", "+inf", "-INFINITY".
std::optional<double> parse_numpy_special(std::string_view text);

}  // namespace codecfs
