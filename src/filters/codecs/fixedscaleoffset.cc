// fixedscaleoffset: numcodecs "fixedscaleoffset". Stores round((x - offset) * scale) as elements of astype.
//
//   {"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}
//
// Both directions compute as numpy 1 does, so that the bytes are identical. There the result type of an array and a
// number depends on the number: integers with integers stay integers, which wrap (in a wider type if the number needs
// it). Otherwise the result is a float, in the precision of a float array or the next one that holds the number, and
// double for integer arrays. Division of integers is in double.

#include <algorithm>

#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters::codecs {
namespace {

/// A number from the JSON: numpy distinguishes 10 from 10.0.
struct Number {
  double value = 0;
  std::optional<int64_t> integer;
};

Result<Number> read_number(const Json& codec, const char* key) {
  CODECFS_ASSIGN(const double value, number_field(codec, key));
  Number number{value, std::nullopt};
  const Json& member = codec[key];
  if (member.is_number_integer() && (!member.is_number_unsigned() || member.get<uint64_t>() <= INT64_MAX))
    number.integer = member.get<int64_t>();
  return number;
}

enum class Precision { half, single, full };

template <class T>
constexpr Precision precision_of() {
  if (std::same_as<T, Half>) return Precision::half;
  return std::same_as<T, float> ? Precision::single : Precision::full;
}

/// numpy's result type of a float array and a number.
Precision with_number(Precision array, const Number& number) {
  const double v = number.value;
  Precision least = Precision::full;
  if (number.integer) {
    if (v >= INT16_MIN && v <= UINT16_MAX) least = Precision::single;
    if (v >= INT8_MIN && v <= UINT8_MAX) least = Precision::half;
  } else {
    if (!std::isfinite(v) || std::fabs(v) < 3.4e38) least = Precision::single;
    if (!std::isfinite(v) || std::fabs(v) < 65000) least = Precision::half;
  }
  return std::max(array, least);
}

/// Single and half arithmetic may be computed in double and rounded afterwards: the result is the same.
double round_to(Precision precision, double x) {
  switch (precision) {
    case Precision::half: return half_to_double(double_to_half(x));
    case Precision::single: return static_cast<float>(x);
    case Precision::full: break;
  }
  return x;
}

template <class To, class From, class Convert>
void convert_in(Precision last, const std::byte* from, std::byte* to, size_t count, Convert convert) {
  // If the last step is in double, no step rounds.
  if (last == Precision::full && precision_of<From>() == Precision::full)
    return convert_each<To, From>(from, to, count, [&](From x) {
      return element_of<To>(convert(static_cast<double>(value_of(x)), [](Precision, double y) { return y; }));
    });
  convert_each<To, From>(from, to, count,
                         [&](From x) { return element_of<To>(convert(static_cast<double>(value_of(x)), round_to)); });
}

/// numpy's result type of an integer array and an integer; none if that is double.
struct IntegerType {
  int bits = 64;
  bool is_signed = true;

  [[nodiscard]] std::optional<IntegerType> with_number(int64_t number) const {
    IntegerType type = *this;
    if (!is_signed && number < 0) {
      if (bits == 64) return std::nullopt;
      type = {bits * 2, true};
    }
    while (!type.holds(number)) type.bits *= 2;
    return type;
  }
  [[nodiscard]] bool holds(int64_t number) const {
    if (bits == 64) return is_signed || number >= 0;
    if (!is_signed) return number >= 0 && number < int64_t{1} << bits;
    return number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1);
  }
  /// The value modulo 2^bits.
  [[nodiscard]] uint64_t wrap(uint64_t value) const {
    const int above = 64 - bits;
    value <<= above;
    return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> above) : value >> above;
  }
};

template <class T>
IntegerType integer_type_of() {
  if constexpr (std::same_as<T, Bool>)
    return {};
  else
    return {static_cast<int>(sizeof(T)) * 8, std::is_signed_v<T>};
}

template <class Decoded, class Encoded>
void decode(const std::byte* from, std::byte* to, size_t count, const Number& scale, const Number& offset) {
  const Precision quotient = with_number(precision_of<Encoded>(), scale);
  const Precision sum = with_number(quotient, offset);
  const double divisor = round_to(quotient, scale.value);
  const double summand = round_to(sum, offset.value);
  convert_in<Decoded, Encoded>(
      sum, from, to, count, [=](double x, auto round) { return round(sum, round(quotient, x / divisor) + summand); });
}

/// Calls `use` with the value as a signed or unsigned number, as the type requires.
template <class Use>
auto with_sign(uint64_t value, bool is_signed, Use use) {
  return is_signed ? use(static_cast<int64_t>(value)) : use(value);
}

/// For integer differences; the products are integers too, or double.
template <class Decoded, class Encoded>
void encode_integers(const std::byte* from, std::byte* to, size_t count, const Number& scale, uint64_t offset,
                     IntegerType difference) {
  const auto subtract = [=](Decoded x) { return difference.wrap(static_cast<uint64_t>(value_of(x)) - offset); };
  const auto product = scale.integer ? difference.with_number(*scale.integer) : std::optional<IntegerType>{};
  if (product) {
    const auto factor = static_cast<uint64_t>(*scale.integer);
    return convert_each<Encoded, Decoded>(from, to, count, [=](Decoded x) {
      return with_sign(product->wrap(subtract(x) * factor), product->is_signed,
                       [](auto y) { return element_of<Encoded>(y); });
    });
  }
  convert_each<Encoded, Decoded>(from, to, count, [=](Decoded x) {
    return with_sign(subtract(x), difference.is_signed,
                     [&](auto y) { return element_of<Encoded>(std::nearbyint(static_cast<double>(y) * scale.value)); });
  });
}

template <class Decoded, class Encoded>
void encode(const std::byte* from, std::byte* to, size_t count, const Number& scale, const Number& offset) {
  if constexpr (!FloatElement<Decoded>) {
    const auto difference =
        offset.integer ? integer_type_of<Decoded>().with_number(*offset.integer) : std::optional<IntegerType>{};
    if (difference)
      return encode_integers<Decoded, Encoded>(from, to, count, scale, static_cast<uint64_t>(*offset.integer),
                                               *difference);
  }
  const Precision difference = with_number(precision_of<Decoded>(), offset);
  const Precision product = with_number(difference, scale);
  const double summand = round_to(difference, offset.value);
  const double factor = round_to(product, scale.value);
  convert_in<Encoded, Decoded>(product, from, to, count, [=](double x, auto round) {
    return std::nearbyint(round(product, round(difference, x - summand) * factor));
  });
}

Result<Coder> make_coder(const StageContext& context) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
  CODECFS_ASSIGN(const Number scale, read_number(context.stage.codec, "scale"));
  CODECFS_ASSIGN(const Number offset, read_number(context.stage.codec, "offset"));
  if (scale.value == 0) return fail(EINVAL, "\"scale\" is 0");
  return visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      return make_element_coder(
          types,
          [=](const std::byte* from, std::byte* to, size_t count) {
            decode<Decoded, Encoded>(from, to, count, scale, offset);
          },
          [=](const std::byte* from, std::byte* to, size_t count) {
            encode<Decoded, Encoded>(from, to, count, scale, offset);
          });
    });
  });
}

}  // namespace

Filter fixedscaleoffset() {
  return {.name = "fixedscaleoffset", .codec = "fixedscaleoffset", .make_coder = make_coder};
}

}  // namespace codecfs::filters::codecs
