// Reads members of a codec's JSON liberally.

#include "filters/core/codec_fields.h"

#include <charconv>
#include <cmath>

#include "model/json.h"
#include "model/numpy_type.h"

namespace codecfs::filters {
namespace {

const Json* present_member(const Json& codec, const char* key) {
  if (!codec.is_object()) return nullptr;
  const auto found = codec.find(key);
  return found == codec.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> as_number(const Json& value) {
  if (const auto number = rounded_number(value)) return number;
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::unexpected<Error> wrong_kind(const char* key, const Json& value, const char* wanted) {
  return fail(EINVAL, "\"{}\": {} is not {}", key, print_json(value), wanted);
}

}  // namespace

Result<int64_t> integer_field(const Json& codec, const char* key, int64_t fallback, int64_t low, int64_t high) {
  const Json* value = present_member(codec, key);
  if (value == nullptr) return fallback;
  const std::optional<double> number = as_number(*value);  // exact, as all ranges are within 2^53
  if (!number || std::isnan(*number)) return wrong_kind(key, *value, "an integer");
  if (*number <= static_cast<double>(low) - 1 || *number >= static_cast<double>(high) + 1)
    return fail(EINVAL, "\"{}\": {} is not between {} and {}", key, print_json(*value), low, high);
  return static_cast<int64_t>(*number);
}

Result<double> number_field(const Json& codec, const char* key) {
  const Json* value = present_member(codec, key);
  if (value == nullptr) return fail(EINVAL, "\"{}\" is missing", key);
  const std::optional<double> number = as_number(*value);
  if (!number) return wrong_kind(key, *value, "a number");
  return *number;
}

Result<std::string> text_field(const Json& codec, const char* key, std::string fallback) {
  const Json* value = present_member(codec, key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) return wrong_kind(key, *value, "a text");
  return value->get<std::string>();
}

Result<std::optional<DataType>> dtype_field(const Json& codec, const char* key) {
  const Json* value = present_member(codec, key);
  if (value == nullptr) return std::nullopt;
  Result<DataType> type = parse_numpy_type(*value);
  if (!type) return fail(EINVAL, "\"{}\": {}", key, type.error().reason);
  return *std::move(type);
}

}  // namespace codecfs::filters
