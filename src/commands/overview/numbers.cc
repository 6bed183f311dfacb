#include "commands/overview/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/endian.h"
#include "commands/elements.h"
#include "model/json.h"
#include "model/small_float.h"

namespace codecfs::commands::overview {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double half_value(uint16_t bits) {
  static const SmallFloat kHalf{"float16", 2, 5, 10, 15, true, true, SmallFloat::Nan::ieee};
  return small_float_value(kHalf, bits);
}

template <class Convert>
void convert_each(Bytes elements, size_t size, std::span<double> numbers, Convert convert) {
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = convert(&elements[i * size]);
}

double float_at(const std::byte* at) { return static_cast<double>(std::bit_cast<float>(load_le<uint32_t>(at))); }
double double_at(const std::byte* at) { return std::bit_cast<double>(load_le<uint64_t>(at)); }

void floats_to_numbers(Bytes elements, size_t size, std::span<double> numbers) {
  if (size == 2) return convert_each(elements, 2, numbers, [](auto at) { return half_value(load_le<uint16_t>(at)); });
  if (size == 4) return convert_each(elements, 4, numbers, float_at);
  convert_each(elements, 8, numbers, double_at);
}

template <class Signed, class Unsigned>
void integers_to_numbers(bool is_signed, Bytes elements, std::span<double> numbers) {
  if (is_signed)
    return convert_each(elements, sizeof(Unsigned), numbers,
                        [](auto at) { return static_cast<double>(static_cast<Signed>(load_le<Unsigned>(at))); });
  convert_each(elements, sizeof(Unsigned), numbers, [](auto at) { return static_cast<double>(load_le<Unsigned>(at)); });
}

void integers_to_numbers(bool is_signed, size_t size, Bytes elements, std::span<double> numbers) {
  switch (size) {
    case 1: return integers_to_numbers<int8_t, uint8_t>(is_signed, elements, numbers);
    case 2: return integers_to_numbers<int16_t, uint16_t>(is_signed, elements, numbers);
    case 4: return integers_to_numbers<int32_t, uint32_t>(is_signed, elements, numbers);
    default: return integers_to_numbers<int64_t, uint64_t>(is_signed, elements, numbers);
  }
}

/// The format of elements that only Zarr v3 has a name for; null for others.
const SmallFloat* small_format(const Variable& variable) {
  return variable.type.kind == TypeKind::raw && !variable.zarr3_type.empty() ? small_float_named(variable.zarr3_type)
                                                                             : nullptr;
}

const Attribute* find_attribute(std::span<const Attribute> attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &Attribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

/// The numbers of an attribute: one, or a list of them.
std::vector<double> numbers_in(const Attribute* attribute) {
  std::vector<double> numbers;
  if (attribute == nullptr) return numbers;
  const Json& value = attribute->value;
  const auto add = [&](const Json& item) {
    if (const std::optional<double> number = rounded_number(item)) numbers.push_back(*number);
    if (item.is_string() && item.get_ref<const std::string&>() == "NaN") numbers.push_back(kNan);
  };
  if (value.is_array())
    for (const Json& item : value) add(item);
  else
    add(value);
  return numbers;
}

std::string text_in(const Attribute* attribute) {
  return attribute != nullptr && attribute->value->is_string() ? attribute->value->get<std::string>() : "";
}

bool is_equal(double one, double other) { return one == other || (std::isnan(one) && std::isnan(other)); }

std::vector<Flag> flags_in(std::span<const Attribute> attributes) {
  std::vector<Flag> flags;
  std::string meanings = text_in(find_attribute(attributes, "flag_meanings"));
  for (const double value : numbers_in(find_attribute(attributes, "flag_values"))) {
    const size_t begin = std::min(meanings.find_first_not_of(' '), meanings.size());
    const size_t end = std::min(meanings.find(' ', begin), meanings.size());
    flags.push_back({value, meanings.substr(begin, end - begin)});
    meanings.erase(0, end);
  }
  return flags;
}

}  // namespace

bool has_numbers(const Variable& variable) {
  switch (variable.type.kind) {
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::timedelta:
    case TypeKind::datetime: return std::has_single_bit(variable.type.size) && variable.type.size <= 8;
    case TypeKind::floating: return variable.type.size == 2 || variable.type.size == 4 || variable.type.size == 8;
    case TypeKind::complex: return variable.type.size == 8 || variable.type.size == 16;
    case TypeKind::raw: return small_format(variable) != nullptr;
    default: return false;
  }
}

void to_numbers(const Variable& variable, Bytes elements, std::span<double> numbers) {
  const size_t size = variable.type.size;
  switch (variable.type.kind) {
    case TypeKind::boolean:
      return convert_each(elements, size, numbers, [](auto at) { return *at == std::byte{} ? 0.0 : 1.0; });
    case TypeKind::signed_int: return integers_to_numbers(true, size, elements, numbers);
    case TypeKind::unsigned_int: return integers_to_numbers(false, size, elements, numbers);
    case TypeKind::floating: return floats_to_numbers(elements, size, numbers);
    case TypeKind::complex:
      if (size == 8)
        return convert_each(elements, 8, numbers, [](auto at) { return std::hypot(float_at(at), float_at(at + 4)); });
      return convert_each(elements, 16, numbers, [](auto at) { return std::hypot(double_at(at), double_at(at + 8)); });
    case TypeKind::timedelta:
    case TypeKind::datetime:
      return convert_each(elements, 8, numbers, [](auto at) {
        const auto time = static_cast<int64_t>(load_le<uint64_t>(at));
        return time == INT64_MIN ? kNan : static_cast<double>(time);
      });
    default: {
      const SmallFloat* const format = small_format(variable);
      if (format == nullptr) {
        std::ranges::fill(numbers, kNan);
        return;
      }
      return convert_each(elements, size, numbers, [format](auto at) {
        return small_float_value(*format, format->bytes == 1 ? load_le<uint8_t>(at) : load_le<uint16_t>(at));
      });
    }
  }
}

bool Conventions::is_missing(double stored) const {
  if (std::isnan(stored)) return true;
  return std::ranges::any_of(missing, [stored](double mark) { return mark == stored; });
}

bool Conventions::is_fill(double stored) const { return (fill && is_equal(*fill, stored)) || is_missing(stored); }

Conventions conventions_of(const Variable& facts, std::span<const Attribute> attributes) {
  Conventions found;
  if (!has_numbers(facts)) return found;
  if (!facts.is_fill_undefined) {
    double fill = 0;
    to_numbers(facts, fill_element(facts), {&fill, 1});
    found.fill = fill;
    // netCDF's default, which is no attribute. Numbers of one byte may need all of their values.
    if (fill != 0 && facts.type.size > 1) found.missing.push_back(fill);
  }
  const bool is_float = facts.type.kind == TypeKind::floating && facts.type.size == 4;
  for (const char* const name : {kFillAttribute, "missing_value"})
    for (const double mark : numbers_in(find_attribute(attributes, name)))
      found.missing.push_back(is_float ? static_cast<double>(static_cast<float>(mark)) : mark);
  if (facts.type.kind == TypeKind::unsigned_int && facts.type.size >= 4)
    found.mask = facts.type.size == 4 ? static_cast<double>(UINT32_MAX) : static_cast<double>(UINT64_MAX);
  const std::vector<double> scale = numbers_in(find_attribute(attributes, "scale_factor"));
  const std::vector<double> offset = numbers_in(find_attribute(attributes, "add_offset"));
  if (scale.size() == 1 && std::isfinite(scale[0])) found.scale = scale[0];
  if (offset.size() == 1 && std::isfinite(offset[0])) found.offset = offset[0];
  found.is_packed = found.scale != 1 || found.offset != 0;
  if (facts.type.kind == TypeKind::signed_int && text_in(find_attribute(attributes, "_Unsigned")) == "true")
    found.unsigned_from = std::ldexp(1.0, static_cast<int>(8 * facts.type.size));
  if (found.unsigned_from != 0)
    for (double& mark : found.missing)
      if (mark < 0) mark += found.unsigned_from;
  if (found.fill && *found.fill < 0) *found.fill += found.unsigned_from;
  found.flags = flags_in(attributes);
  found.units = text_in(find_attribute(attributes, "units"));
  found.long_name = text_in(find_attribute(attributes, "long_name"));
  found.standard_name = text_in(find_attribute(attributes, "standard_name"));
  return found;
}

std::string number_text(double number) {
  if (std::isfinite(number) && number == std::trunc(number) && std::abs(number) < 1e15)
    return fmt::format("{:.0f}", number == 0 ? 0 : number);
  return fmt::format("{:.6g}", number);
}

std::string share_text(uint64_t part, uint64_t whole) {
  if (part == 0) return "none";
  if (part == whole) return "all";
  return fmt::format("{:.3g} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace codecfs::commands::overview
