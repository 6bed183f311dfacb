#include "commands/attribute_forms.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "model/json.h"

namespace codecfs::commands {
namespace {

/// Which of two values were floats of 32 bits in their source. As JSON, these have the shortest digits that read back.
struct Singles {
  bool one = false;
  bool other = false;
};

/// Whether a float is exactly this integer, a Json.
bool is_integer(double number, const Json& integer) {
  if (number != std::trunc(number)) return false;
  constexpr double kTwo63 = 0x1p63;
  if (integer.is_number_unsigned())
    return number >= 0 && number < 2 * kTwo63 && static_cast<uint64_t>(number) == integer.get<uint64_t>();
  return number >= -kTwo63 && number < kTwo63 && static_cast<int64_t>(number) == integer.get<int64_t>();
}

bool is_same_number(const Json& one, const Json& other, const Singles& singles) {
  if (one.is_number_float() != other.is_number_float()) {
    const auto& [number, integer] = one.is_number_float() ? std::tie(one, other) : std::tie(other, one);
    return is_integer(number.get<double>(), integer);
  }
  if (!one.is_number_float() || singles.one == singles.other) return false;  // is_same_value() is right
  const double single = (singles.one ? one : other).get<double>();
  const double exact = (singles.one ? other : one).get<double>();
  return static_cast<double>(static_cast<float>(single)) == exact;
}

Json as_number(const Json& value) { return value.is_boolean() ? Json(value.get<bool>() ? 1 : 0) : value; }

bool have_same_content(const Json& one, const Json& other, const Singles& singles) {
  if (one.is_array() && other.is_array() && one.size() == other.size())
    return std::ranges::equal(
        one, other, [&](const Json& left, const Json& right) { return have_same_content(left, right, singles); });
  if (one.is_array() && one.size() == 1) return have_same_content(one[0], other, singles);
  if (other.is_array() && other.size() == 1) return have_same_content(one, other[0], singles);
  if (is_same_value(one, other)) return true;
  const Json left = as_number(one);
  const Json right = as_number(other);
  if (!left.is_number() || !right.is_number()) return false;
  return is_same_value(left, right) || is_same_number(left, right, singles);
}

}  // namespace

bool is_same_value(const Json& one, const Json& other) {
  if (one.is_object() && other.is_object()) {
    if (one.size() != other.size()) return false;
    for (const auto& [key, value] : one.items()) {
      const auto found = other.find(key);
      if (found == other.end() || !is_same_value(value, *found)) return false;
    }
    return true;
  }
  if (one.is_array() && other.is_array())
    return std::ranges::equal(one, other,
                              [](const Json& left, const Json& right) { return is_same_value(left, right); });
  return print_json(one) == print_json(other);  // NaN is the same as NaN
}

Json netcdf_form(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_array() || value.empty()) return value;
  if (value.size() == 1 && !value[0].is_structured()) return netcdf_form(value[0]);
  if (!std::ranges::all_of(value, &Json::is_boolean)) return value;
  Json numbers = Json::array();
  for (const Json& item : value) numbers.push_back(netcdf_form(item));
  return numbers;
}

bool has_same_content(const Attribute& one, const Attribute& other) {
  constexpr std::string_view kSingle = "<f4";
  return have_same_content(one.value, other.value, {.one = one.type == kSingle, .other = other.type == kSingle});
}

}  // namespace codecfs::commands
