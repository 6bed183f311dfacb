#include "model/small_float.h"

#include <bit>
#include <cmath>
#include <limits>

namespace codecfs {
namespace {

using Nan = SmallFloat::Nan;

constexpr SmallFloat kFormats[] = {
    {"bfloat16", 2, 8, 7, 127, true, true, Nan::ieee},
    {"float8_e3m4", 1, 3, 4, 3, true, true, Nan::ieee},
    {"float8_e4m3", 1, 4, 3, 7, true, true, Nan::ieee},
    {"float8_e4m3b11fnuz", 1, 4, 3, 11, true, false, Nan::negative_zero},
    {"float8_e4m3fn", 1, 4, 3, 7, true, false, Nan::all_ones},
    {"float8_e4m3fnuz", 1, 4, 3, 8, true, false, Nan::negative_zero},
    {"float8_e5m2", 1, 5, 2, 15, true, true, Nan::ieee},
    {"float8_e5m2fnuz", 1, 5, 2, 16, true, false, Nan::negative_zero},
    {"float8_e8m0fnu", 1, 8, 0, 127, false, false, Nan::all_ones},
    {"float6_e2m3fn", 1, 2, 3, 1, true, false, Nan::none},
    {"float6_e3m2fn", 1, 3, 2, 3, true, false, Nan::none},
    {"float4_e2m1fn", 1, 2, 1, 1, true, false, Nan::none},
};

constexpr SmallInt kIntegers[] = {
    {"int2", true, -2, 1}, {"int4", true, -8, 7}, {"uint2", false, 0, 3}, {"uint4", false, 0, 15}};

uint32_t sign_bit(const SmallFloat& format) { return uint32_t{1} << (format.exponent + format.mantissa); }

uint32_t magnitude_mask(const SmallFloat& format) { return sign_bit(format) - 1; }

/// The bits of a quiet NaN; none if the format has no NaN.
std::optional<uint32_t> nan_bits(const SmallFloat& format) {
  switch (format.nan) {
    case Nan::ieee: return ((uint32_t{1} << format.exponent) - 1) << format.mantissa | 1U << (format.mantissa - 1);
    case Nan::all_ones: return magnitude_mask(format);
    case Nan::negative_zero: return sign_bit(format);
    case Nan::none: break;
  }
  return std::nullopt;
}

/// The value of a magnitude as if all exponents were of finite numbers.
double finite_value(const SmallFloat& format, uint32_t magnitude) {
  const auto mantissa = static_cast<double>(magnitude & ((uint32_t{1} << format.mantissa) - 1));
  const auto exponent = static_cast<int>(magnitude >> format.mantissa);
  const double one = std::ldexp(1.0, static_cast<int>(format.mantissa));
  if (exponent == 0 && format.mantissa > 0)
    return std::ldexp(mantissa, 1 - format.bias - static_cast<int>(format.mantissa));
  return std::ldexp(one + mantissa, exponent - format.bias - static_cast<int>(format.mantissa));
}

/// The largest magnitude that is finite.
uint32_t largest_finite(const SmallFloat& format) {
  if (format.nan == Nan::ieee) return (((uint32_t{1} << format.exponent) - 1) << format.mantissa) - 1;
  return magnitude_mask(format) - (format.nan == Nan::all_ones ? 1 : 0);
}

}  // namespace

std::span<const SmallFloat> small_floats() { return kFormats; }

const SmallFloat* small_float_named(std::string_view name) {
  for (const SmallFloat& format : kFormats)
    if (format.name == name) return &format;
  return nullptr;
}

const SmallFloat* small_complex_part(std::string_view name) {
  constexpr std::string_view kPrefix = "complex_";
  return name.starts_with(kPrefix) ? small_float_named(name.substr(kPrefix.size())) : nullptr;
}

const SmallInt* small_int_named(std::string_view name) {
  for (const SmallInt& integer : kIntegers)
    if (integer.name == name) return &integer;
  return nullptr;
}

unsigned SmallInt::bits() const {
  return static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(highest))) + (is_signed ? 1U : 0U);
}

double largest_value(const SmallFloat& format) { return finite_value(format, largest_finite(format)); }

double small_float_value(const SmallFloat& format, uint32_t bits) {
  const uint32_t magnitude = bits & magnitude_mask(format);
  const bool is_negative = format.is_signed && (bits & sign_bit(format)) != 0;
  double value = 0;
  if (format.nan == Nan::negative_zero && is_negative && magnitude == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (magnitude > largest_finite(format)) {
    const bool is_infinite = format.has_infinity && magnitude == largest_finite(format) + 1;
    value = is_infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = finite_value(format, magnitude);
  }
  return is_negative ? -value : value;
}

std::optional<uint32_t> small_float_bits(const SmallFloat& format, double value) {
  if (std::isnan(value)) return nan_bits(format);
  const uint32_t sign = std::signbit(value) && format.is_signed ? sign_bit(format) : 0;
  if (value < 0 && !format.is_signed) return std::nullopt;
  const double magnitude = std::fabs(value);
  const uint32_t largest = largest_finite(format);
  // Magnitudes grow with their bits: find the largest that is not above the value.
  uint32_t below = 0;
  for (uint32_t step = sign_bit(format); step > 0; step /= 2)
    if (below + step <= largest && finite_value(format, below + step) <= magnitude) below += step;
  uint32_t bits = below;
  if (below < largest) {
    const double down = magnitude - finite_value(format, below);
    const double up = finite_value(format, below + 1) - magnitude;
    if (up < down || (up == down && (below & 1) != 0)) ++bits;
  } else if (magnitude > finite_value(format, largest)) {
    // Halfway to the value that would follow rounds to it, as the mantissa's lowest bit is 1 or it is not
    // representable.
    const double last = finite_value(format, largest);
    const double half = (last - finite_value(format, largest - 1)) / 2;
    if (std::isinf(magnitude) || magnitude >= last + half) {
      if (format.nan == Nan::none) {
        if (std::isinf(magnitude)) return std::nullopt;
        return sign | largest;
      }
      if (!format.has_infinity) return nan_bits(format);
      ++bits;
    }
  }
  if (bits == 0 && format.nan == Nan::negative_zero) return 0;
  return sign | bits;
}

}  // namespace codecfs
