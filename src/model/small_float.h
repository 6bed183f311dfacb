#pragma once
// Floating-point formats of 16 bits or less that neither C++ nor numpy has, and integers of less than 8 bits. Source:
// ml_dtypes; the OCP 8-bit and microscaling formats.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace codecfs {

struct SmallFloat {
  std::string_view name;  // "bfloat16", "float8_e4m3fn"
  unsigned bytes;         // of one element
  unsigned exponent;      // bits
  unsigned mantissa;      // bits
  int bias;
  bool is_signed;
  bool has_infinity;
  enum class Nan { ieee, all_ones, negative_zero, none } nan;

  /// Whether the bits of infinities and NaN, and only these, have the largest exponent.
  [[nodiscard]] bool is_like_ieee() const { return is_signed && has_infinity && nan == Nan::ieee; }
};

/// All formats.
std::span<const SmallFloat> small_floats();

/// Null if there is no such format.
const SmallFloat* small_float_named(std::string_view name);

/// The format of the parts of "complex_bfloat16" and similar names; null for others.
const SmallFloat* small_complex_part(std::string_view name);

/// An integer that is stored in a byte.
struct SmallInt {
  std::string_view name;  // "int4"
  bool is_signed;
  int64_t lowest;
  int64_t highest;
  [[nodiscard]] unsigned bits() const;
};

/// Null if there is no such type.
const SmallInt* small_int_named(std::string_view name);

/// The largest finite value.
double largest_value(const SmallFloat& format);
double small_float_value(const SmallFloat& format, uint32_t bits);
/// The bits of the nearest value, ties to even; none if the format cannot represent NaN, an infinity or the sign.
std::optional<uint32_t> small_float_bits(const SmallFloat& format, double value);

}  // namespace codecfs
