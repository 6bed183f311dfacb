// Converts fill values between JSON and the bytes of one element. Source: Zarr v2 specification, "Fill value encoding".

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/endian.h"
#include "base/utf8.h"
#include "model/base64.h"
#include "model/data_type.h"
#include "model/json.h"
#include "model/numpy_type.h"

namespace codecfs {
namespace {

using Element = std::vector<std::byte>;

constexpr bool kHasX87 = std::numeric_limits<long double>::digits == 64;

std::unexpected<Error> refuse(const DataType& type, const Json& value) {
  return fail(EINVAL, "fill_value {} does not fit dtype {}", print_json(value), print_json(print_dtype(type)));
}

/// Converts between little-endian and the type's byte order.
void put_in_order(const DataType& type, std::span<std::byte> bytes) {
  if (type.order == ByteOrder::big) std::ranges::reverse(bytes);
}

/// IEEE binary16, rounded to nearest, ties to even. Scaling to units in the last place is exact, so nearbyint() does
/// the only rounding.
uint16_t to_half(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return sign | 0x7E00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  if (magnitude == 0.0 || exponent < -13)
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));  // 1024..2048
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + (units - 1024));
}

double from_half(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (half & 0x8000) != 0 ? -value : value;
}

std::optional<double> number_of(const Json& value) {
  if (const auto number = rounded_number(value)) return number;
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (const auto special = parse_numpy_special(text)) return special;
  const auto parsed = parse_json(text);  // some writers quote numbers
  return parsed && parsed->is_number() ? std::optional(parsed->get<double>()) : std::nullopt;
}

/// Writes one real number of a floating-point or complex type to `bytes`.
bool write_real(const DataType& type, double number, std::span<std::byte> bytes) {
  switch (bytes.size()) {
    case 2: store_le(bytes.data(), to_half(number)); break;
    case 4: store_le(bytes.data(), std::bit_cast<uint32_t>(static_cast<float>(number))); break;
    case 8: store_le(bytes.data(), std::bit_cast<uint64_t>(number)); break;
    default:  // numpy's longdouble: ten significant bytes, the rest is padding
      if constexpr (!kHasX87) return false;
      const auto wide = static_cast<long double>(number);
      std::memcpy(bytes.data(), &wide, 10);
  }
  put_in_order(type, bytes);
  return true;
}

Json read_real(const DataType& type, std::span<const std::byte> element) {
  std::vector<std::byte> bytes(element.begin(), element.end());
  put_in_order(type, bytes);
  double number = 0;
  switch (bytes.size()) {
    case 2: number = from_half(load_le<uint16_t>(bytes.data())); break;
    case 4: number = shortest_double(std::bit_cast<float>(load_le<uint32_t>(bytes.data()))); break;
    case 8: number = std::bit_cast<double>(load_le<uint64_t>(bytes.data())); break;
    default:
      if constexpr (kHasX87) {
        long double wide = 0;
        std::memcpy(&wide, bytes.data(), 10);
        number = static_cast<double>(wide);
      }
  }
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return number;
}

Result<Element> integer_bytes(const DataType& type, const Json& fill_value) {
  Json value = fill_value;
  if (value.is_string()) {
    if (type.kind == TypeKind::datetime || type.kind == TypeKind::timedelta) {
      if (value == "NaT") value = std::numeric_limits<int64_t>::min();
    } else if (auto parsed = parse_json(value.get_ref<const std::string&>()); parsed && parsed->is_number()) {
      value = std::move(*parsed);
    }
  }
  if (value.is_boolean()) value = value.get<bool>() ? 1U : 0U;
  if (value.is_number_float()) {  // some writers print integers as 0.0
    const double number = value.get<double>();
    if (number == std::floor(number) && number >= -0x1p63 && number < 0x1p63) {
      value = static_cast<int64_t>(number);
    } else if (number == std::floor(number) && number >= 0 && number < 0x1p64) {
      value = static_cast<uint64_t>(number);
    }
  }
  if (!value.is_number_integer()) return refuse(type, fill_value);

  const bool is_negative = !value.is_number_unsigned() && value.get<int64_t>() < 0;
  const uint64_t bits = is_negative ? static_cast<uint64_t>(value.get<int64_t>()) : value.get<uint64_t>();
  const int width = static_cast<int>(type.size) * 8;
  bool fits = false;
  if (type.kind == TypeKind::boolean) {
    fits = bits <= 1;
  } else if (type.kind == TypeKind::unsigned_int) {
    fits = !is_negative && (width == 64 || bits >> width == 0);
  } else {
    const uint64_t limit = uint64_t{1} << (width - 1);
    fits = is_negative ? bits >= -limit : bits < limit;
  }
  if (!fits) return refuse(type, fill_value);
  std::byte all[8];
  store_le(all, bits);
  Element element(all, all + type.size);
  put_in_order(type, element);
  return element;
}

Json integer_json(const DataType& type, std::span<const std::byte> element) {
  Element bytes(element.begin(), element.end());
  put_in_order(type, bytes);
  const bool is_signed = type.kind != TypeKind::unsigned_int && type.kind != TypeKind::boolean;
  const bool is_negative = is_signed && (bytes.back() & std::byte{0x80}) != std::byte{0};
  bytes.resize(8, is_negative ? std::byte{0xFF} : std::byte{0});
  const auto bits = load_le<uint64_t>(bytes.data());
  if (type.kind == TypeKind::boolean) return bits != 0;
  if (is_negative) return static_cast<int64_t>(bits);
  return bits;
}

Result<Element> real_bytes(const DataType& type, const Json& fill_value) {
  Element element(type.size);
  const bool is_complex = type.kind == TypeKind::complex;
  const bool is_pair = is_complex && fill_value.is_array() && fill_value.size() == 2;
  const size_t size = is_complex ? element.size() / 2 : element.size();
  for (size_t i = 0; i < (is_pair ? 2 : 1); ++i) {
    const auto number = number_of(is_pair ? fill_value[i] : fill_value);
    if (!number || !write_real(type, *number, std::span(element).subspan(i * size, size)))
      return refuse(type, fill_value);
  }
  return element;
}

/// zarr-python writes 0 as the zero value of non-numeric types.
bool is_zero(const Json& value) { return value.is_number() && value.get<double>() == 0.0; }

/// For types whose fill value is base64. Shorter values are padded with NUL, as numpy does.
Result<Element> opaque_bytes(const DataType& type, const Json& fill_value) {
  if (is_zero(fill_value)) return Element(type.size);
  if (!fill_value.is_string()) return refuse(type, fill_value);
  const auto& text = fill_value.get_ref<const std::string&>();
  auto decoded = decode_base64(text);
  if (decoded && decoded->size() <= type.size) {
    decoded->resize(type.size);
    return std::move(*decoded);
  }
  if (type.kind != TypeKind::string || text.size() > type.size) return refuse(type, fill_value);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  Element element(bytes, bytes + text.size());
  element.resize(type.size);
  return element;
}

Result<Element> unicode_bytes(const DataType& type, const Json& fill_value) {
  if (is_zero(fill_value)) return Element(type.size);
  if (!fill_value.is_string()) return refuse(type, fill_value);
  Element element(type.size);
  std::string_view text = fill_value.get_ref<const std::string&>();
  for (size_t at = 0; !text.empty(); at += 4) {
    const size_t length = utf8_length(text);
    if (length == 0 || at + 4 > element.size()) return refuse(type, fill_value);
    const auto code_point = static_cast<uint32_t>(utf8_decode(text));
    if (type.order == ByteOrder::big) {
      store_be(element.data() + at, code_point);
    } else {
      store_le(element.data() + at, code_point);
    }
    text.remove_prefix(length);
  }
  return element;
}

std::span<const std::byte> without_trailing_zeros(std::span<const std::byte> bytes) {
  while (!bytes.empty() && bytes.back() == std::byte{0}) bytes = bytes.first(bytes.size() - 1);
  return bytes;
}

Json unicode_json(const DataType& type, std::span<const std::byte> element) {
  std::string text;
  const size_t used = (without_trailing_zeros(element).size() + 3) / 4 * 4;
  for (size_t at = 0; at < used; at += 4) {
    const std::byte* from = element.data() + at;
    utf8_append(text, type.order == ByteOrder::big ? load_be<uint32_t>(from) : load_le<uint32_t>(from));
  }
  return text;
}

}  // namespace

Result<std::vector<std::byte>> fill_bytes(const DataType& type, const Json& fill_value) {
  if (type.kind == TypeKind::object || fill_value.is_null()) return refuse(type, fill_value);
  switch (type.kind) {
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::timedelta:
    case TypeKind::datetime: return integer_bytes(type, fill_value);
    case TypeKind::floating:
    case TypeKind::complex: return real_bytes(type, fill_value);
    case TypeKind::unicode: return unicode_bytes(type, fill_value);
    default: return opaque_bytes(type, fill_value);
  }
}

Json fill_json(const DataType& type, std::span<const std::byte> element) {
  switch (type.kind) {
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::timedelta:
    case TypeKind::datetime: return integer_json(type, element);
    case TypeKind::floating: return read_real(type, element);
    case TypeKind::complex: {
      const size_t half = element.size() / 2;
      return Json::array({read_real(type, element.first(half)), read_real(type, element.subspan(half))});
    }
    case TypeKind::unicode: return unicode_json(type, element);
    case TypeKind::string: return encode_base64(without_trailing_zeros(element));
    default: return encode_base64(element);
  }
}

}  // namespace codecfs
