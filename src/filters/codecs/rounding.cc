// Rounding works on a double that holds the number in units of the last place of the target: then it is a choice
// between integers. The exponent is not limited while rounding, so that the range is checked behind it.

#include "filters/codecs/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace codecfs::filters::codecs {
namespace {

__extension__ using WideUnsigned = unsigned __int128;

constexpr int kDoubleDigits = 53;

double rounded(double number, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even: return std::nearbyint(number);
    case Rounding::towards_zero: return std::trunc(number);
    case Rounding::towards_positive: return std::ceil(number);
    case Rounding::towards_negative: return std::floor(number);
    case Rounding::nearest_away: return std::round(number);
  }
  return number;
}

/// A magnitude in parts: `units` and a remainder that lies below, at or above the half of a unit.
enum class Remainder { none, below_half, half, above_half };

bool rounds_up(Rounding rounding, bool is_negative, bool is_odd, Remainder rest) {
  if (rest == Remainder::none) return false;
  switch (rounding) {
    case Rounding::nearest_even: return rest == Remainder::above_half || (rest == Remainder::half && is_odd);
    case Rounding::nearest_away: return rest != Remainder::below_half;
    case Rounding::towards_zero: return false;
    case Rounding::towards_positive: return !is_negative;
    case Rounding::towards_negative: return is_negative;
  }
  return false;
}

WideInteger wrapped(WideUnsigned number, const NumberFormat& format) {
  const WideUnsigned all = (WideUnsigned{1} << format.bits) - 1;
  number &= all;
  if (format.lowest < 0 && (number >> (format.bits - 1) & 1) != 0) number |= ~all;
  return static_cast<WideInteger>(number);
}

}  // namespace

NumberFormat NumberFormat::of(const DataType& type) {
  NumberFormat format;
  const auto bits = static_cast<unsigned>(type.size * 8);
  if (type.kind == TypeKind::floating) {
    format.is_float = true;
    format.digits = type.size == 2 ? 11 : type.size == 4 ? 24 : kDoubleDigits;
    format.lowest_exponent = type.size == 2 ? -24 : type.size == 4 ? -149 : -1074;
    format.largest = type.size == 2   ? 65504
                     : type.size == 4 ? double{std::numeric_limits<float>::max()}
                                      : std::numeric_limits<double>::max();
    format.lowest_float = -format.largest;
    return format;
  }
  format.bits = bits;
  const bool is_signed = type.kind == TypeKind::signed_int;
  format.highest = (WideInteger{1} << (is_signed ? bits - 1 : bits)) - 1;
  format.lowest = is_signed ? -format.highest - 1 : 0;
  return format;
}

NumberFormat NumberFormat::of(const SmallFloat& small) {
  NumberFormat format;
  format.is_float = true;
  format.digits = static_cast<int>(small.mantissa) + 1;
  format.lowest_exponent = (small.mantissa == 0 ? 0 : 1) - small.bias - static_cast<int>(small.mantissa);
  format.largest = largest_value(small);
  format.lowest_float = small.is_signed ? -format.largest : small_float_value(small, 0);
  format.has_nan = small.nan != SmallFloat::Nan::none;
  format.has_infinity = small.has_infinity;
  return format;
}

NumberFormat NumberFormat::of(const SmallInt& small) {
  NumberFormat format;
  format.lowest = small.lowest;
  format.highest = small.highest;
  format.bits = small.bits();
  return format;
}

std::optional<double> float_of(double number, const NumberFormat& format, const ConversionRule& rule) {
  if (std::isnan(number)) return format.has_nan ? std::optional(number) : std::nullopt;
  if (std::isinf(number)) return format.has_infinity ? std::optional(number) : std::nullopt;
  if (format.digits == kDoubleDigits || (number == 0 && format.lowest_float <= 0)) return number;
  int exponent = 0;
  std::frexp(number, &exponent);
  const int unit = std::max(exponent - format.digits, format.lowest_exponent);
  const double result = std::ldexp(rounded(std::ldexp(number, -unit), rule.rounding), unit);
  if (result >= format.lowest_float && result <= format.largest) return result;
  if (rule.out_of_range != OutOfRange::clamp) return std::nullopt;
  if (!format.has_infinity) return std::clamp(result, format.lowest_float, format.largest);
  return std::copysign(std::numeric_limits<double>::infinity(), number);
}

std::optional<double> float_of(WideInteger number, const NumberFormat& format, const ConversionRule& rule) {
  const bool is_negative = number < 0;
  const auto magnitude = static_cast<uint64_t>(is_negative ? -number : number);
  const auto length = static_cast<int>(std::bit_width(magnitude));
  double exact = 0;
  if (length <= kDoubleDigits) {
    exact = static_cast<double>(magnitude);
  } else {
    const int shift = length - kDoubleDigits;
    uint64_t units = magnitude >> shift;
    const uint64_t rest = magnitude & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (format.digits < kDoubleDigits) {
      // A last bit that says that there is more: rounding it again, to fewer digits, gives what one rounding gives.
      if (rest != 0) units |= 1;
    } else {
      const Remainder remainder = rest == 0     ? Remainder::none
                                  : rest < half ? Remainder::below_half
                                  : rest > half ? Remainder::above_half
                                                : Remainder::half;
      if (rounds_up(rule.rounding, is_negative, (units & 1) != 0, remainder)) ++units;
    }
    exact = std::ldexp(static_cast<double>(units), shift);
  }
  return float_of(is_negative ? -exact : exact, format, rule);
}

std::optional<WideInteger> integer_of(double number, const NumberFormat& format, const ConversionRule& rule) {
  if (!std::isfinite(number)) return std::nullopt;
  const double result = rounded(number, rule.rounding);
  // Powers of 2, or their negatives, which are exact: the range is [low, high).
  const auto low = static_cast<double>(format.lowest);
  const double high = std::ldexp(1.0, static_cast<int>(format.bits) - (format.lowest < 0 ? 1 : 0));
  if (result >= low && result < high) return static_cast<WideInteger>(result);
  switch (rule.out_of_range) {
    case OutOfRange::refuse: return std::nullopt;
    case OutOfRange::clamp: return result < low ? format.lowest : format.highest;
    case OutOfRange::wrap: break;
  }
  const double rest = std::fmod(result, std::ldexp(1.0, static_cast<int>(format.bits)));
  return wrapped(static_cast<WideUnsigned>(static_cast<WideInteger>(rest)), format);
}

std::optional<WideInteger> integer_of(WideInteger number, const NumberFormat& format, const ConversionRule& rule) {
  if (number >= format.lowest && number <= format.highest) return number;
  switch (rule.out_of_range) {
    case OutOfRange::refuse: return std::nullopt;
    case OutOfRange::clamp: return number < format.lowest ? format.lowest : format.highest;
    case OutOfRange::wrap: break;
  }
  return wrapped(static_cast<WideUnsigned>(number), format);
}

}  // namespace codecfs::filters::codecs
