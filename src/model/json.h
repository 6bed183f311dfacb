#pragma once
// JSON as the array formats use it: object keys keep their order, NaN and the infinities are numbers (Python's json
// module and Zarr attributes have them), integers have any size (one that 64 bits cannot hold is a Json of the type
// binary, with its digits), and numbers are printed in the shortest form that reads back exactly.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/json_value.h"
#include "model/limits.h"

namespace codecfs {

template <class T>
  requires std::is_arithmetic_v<T>
JsonValue::JsonValue(T number) : JsonValue(Json(number)) {}

/// Parses one JSON text (UTF-8) in which bare NaN, Infinity and -Infinity are numbers. EINVAL with the position of the
/// error, also for nesting deeper than kMaxJsonDepth. EFBIG if the tree would take more than `most_bytes` of memory.
Result<Json> parse_json(std::string_view text, uint64_t most_bytes = kMaxJsonBytes);
inline constexpr int kMaxJsonDepth = 1000;  // as deep as Python reads
/// Whether `text` is not a JSON text yet, but may become one if more is appended to it.
bool is_beginning_of_json(std::string_view text);

/// How print_json() writes what is not ASCII.
enum class JsonText : uint8_t {
  ascii,  // other characters are \uXXXX: zarr 2's util.json_loads requires it
  utf8,   // only control characters are: netCDF-C drops the backslash of \u00b0
};
/// Prints on one line (`indent` < 0, with ", " and ": " between items, as Python does) or indented. Doubles have the
/// shortest form that reads back; NaN, Infinity, -Infinity are bare. Bytes that are not UTF-8 are \ufffd.
std::string print_json(const Json& value, int indent = -1, JsonText text = JsonText::ascii);

/// Whether a value is an integer that neither int64_t nor uint64_t holds.
inline bool is_large_integer(const Json& value) { return value.is_binary(); }
/// A number of any size, rounded; none for other values.
std::optional<double> rounded_number(const Json& value);

/// The value of a member; null if `object` has no such member or is no object.
Json member(const Json& object, std::string_view key);

/// Whether two values print the same: 1 and 1.0 do not, NaN and NaN do.
bool prints_same(const Json& one, const Json& other);

/// Appends a member to an object without a lookup of the key, which must not exist yet. Json's operator[] searches all
/// keys, which makes a loop quadratic.
void append_member(Json& object, std::string key, Json value);

/// The double that prints as the shortest decimal that reads back as this float (0.1f -> 0.1).
double shortest_double(float value);

}  // namespace codecfs
