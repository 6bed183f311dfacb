#pragma once
// Conversion between real numbers of different types with a chosen rounding, as the codec cast_value defines it.
// Source: zarr-extensions, "cast_value".

#include <cstdint>
#include <optional>

#include "model/data_type.h"
#include "model/small_float.h"

namespace codecfs::filters::codecs {

enum class Rounding { nearest_even, towards_zero, towards_positive, towards_negative, nearest_away };
enum class OutOfRange { refuse, clamp, wrap };

/// Holds every integer of 64 bits, signed or not.
__extension__ using WideInteger = __int128;

struct ConversionRule {
  Rounding rounding = Rounding::nearest_even;
  OutOfRange out_of_range = OutOfRange::refuse;
};

/// What a type of numbers can hold: integers in [lowest, highest], or binary floats.
struct NumberFormat {
  bool is_float = false;
  unsigned bits = 0;  // of an integer
  WideInteger lowest = 0;
  WideInteger highest = 0;
  int digits = 0;           // of a float: bits of the significand, the hidden one included
  int lowest_exponent = 0;  // of its smallest subnormal number, a power of 2
  double largest = 0;       // finite float
  double lowest_float = 0;  // finite; -largest where there are negative ones
  bool has_nan = true;      // of a float
  bool has_infinity = true;

  /// `type`: an integer or float of at most 8 bytes.
  static NumberFormat of(const DataType& type);
  static NumberFormat of(const SmallFloat& small);
  static NumberFormat of(const SmallInt& small);
};

/// The number in the format; none if it is out of range and the rule refuses that, and for NaN and infinities in a
/// format without them. A float that is out of range and is clamped becomes an infinity, if there is one.
std::optional<double> float_of(double number, const NumberFormat& format, const ConversionRule& rule);
std::optional<double> float_of(WideInteger number, const NumberFormat& format, const ConversionRule& rule);
std::optional<WideInteger> integer_of(double number, const NumberFormat& format, const ConversionRule& rule);
std::optional<WideInteger> integer_of(WideInteger number, const NumberFormat& format, const ConversionRule& rule);

}  // namespace codecfs::filters::codecs
