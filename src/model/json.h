#pragma once
// JSON as the array formats use it: object keys keep their order, NaN and the infinities are numbers (Python's json
// module and Zarr attributes have them), and numbers are printed in the shortest form that reads back exactly.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/json_value.h"
#include "model/limits.h"

namespace codecfs {

template <class T>
  requires std::is_arithmetic_v<T>
JsonValue::JsonValue(T number) : JsonValue(Json(number)) {}

/// Reads one JSON text (UTF-8), in which bare NaN, Infinity and -Infinity are numbers. EINVAL with the position; also
/// for nesting deeper than kMaxJsonDepth. EFBIG where it would take more than so many bytes of memory.
Result<Json> parse_json(std::string_view text, uint64_t most_bytes = kMaxJsonBytes);
inline constexpr int kMaxJsonDepth = 64;

/// Prints on one line (`indent` < 0, with ", " and ": " between items, as Python does) or indented. Doubles in the
/// shortest form that reads back; NaN, Infinity, -Infinity bare. The text is ASCII, as zarr-python insists (zarr 2's
/// util.json_loads); other characters are \uXXXX, and bytes that are not UTF-8 \ufffd.
std::string print_json(const Json& value, int indent = -1);

/// Adds a member to an object without looking whether the key is there (Json's own operator[] looks at all keys, which
/// is quadratic in a loop). The caller knows that it is not.
void append_member(Json& object, std::string key, Json value);

/// A float as the double that prints as the shortest decimal which reads back as this float (0.1f -> 0.1).
double shortest_double(float value);

}  // namespace codecfs
