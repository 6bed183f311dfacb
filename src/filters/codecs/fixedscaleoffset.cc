// fixedscaleoffset: numcodecs "fixedscaleoffset". Stores round((x - offset) * scale) as elements of astype.
//
//   {"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}
//
// Both directions compute as numpy 1 does, so that the bytes are identical. There the result type of an array and a
// number depends on the number: integers with integers stay integers, which wrap (in a wider type if the number needs
// it). Otherwise the result is a float, in the precision of a float array or the next one that holds the number, and
// double for integer arrays. Division of integers is in double.

#include <algorithm>
#include <array>
#include <span>

#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters::codecs::fixedscaleoffset {
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

/// How the elements of a type become the numbers to compute with, and back. Both types of a stage are converted apart,
/// as the arithmetic compiled for each pair of types would be the largest part of the program.
struct Elements {
  size_t size;
  Precision precision;
  std::optional<IntegerType> integer;  // none: floats
  void (*load)(const std::byte* from, double* to, size_t count);
  void (*load_integers)(const std::byte* from, uint64_t* to, size_t count);  // sign-extended
  void (*store)(const double* from, std::byte* to, size_t count);
  void (*store_signed)(const uint64_t* from, std::byte* to, size_t count);
  void (*store_unsigned)(const uint64_t* from, std::byte* to, size_t count);
};

template <class T, class Word>
void load_as(const std::byte* from, Word* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<Word>(value_of(load_element<T>(from + i * sizeof(T))));
}

template <class T, class Number, class Word>
void store_from(const Word* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) store_element<T>(to + i * sizeof(T), element_of<T>(static_cast<Number>(from[i])));
}

template <class T>
Elements elements_of() {
  Elements elements{.size = sizeof(T),
                    .precision = precision_of<T>(),
                    .integer = {},
                    .load = load_as<T, double>,
                    .load_integers = nullptr,
                    .store = store_from<T, double, double>,
                    .store_signed = store_from<T, int64_t, uint64_t>,
                    .store_unsigned = store_from<T, uint64_t, uint64_t>};
  if constexpr (!FloatElement<T>) {
    elements.integer = integer_type_of<T>();
    elements.load_integers = load_as<T, uint64_t>;
  }
  return elements;
}

constexpr size_t kBlock = 512;  // elements that are computed at once

/// Calls `use(from, to, count)` for each block.
template <class Use>
void in_blocks(const std::byte* from, size_t from_size, std::byte* to, size_t to_size, size_t count, Use use) {
  for (size_t done = 0; done < count; done += kBlock)
    use(from + done * from_size, to + done * to_size, std::min(kBlock, count - done));
}

/// Converts through `convert(double, round)`; its last step is in the precision `last`.
template <class Convert>
void convert_in(Precision last, const Elements& source, const std::byte* from, const Elements& target, std::byte* to,
                size_t count, Convert convert) {
  // If the last step is in double, no step rounds.
  const bool is_rounded = last != Precision::full || source.precision != Precision::full;
  in_blocks(from, source.size, to, target.size, count, [&](const std::byte* in, std::byte* out, size_t size) {
    std::array<double, kBlock> block;
    source.load(in, block.data(), size);
    const std::span numbers(block.data(), size);
    if (is_rounded) {
      for (double& x : numbers) x = convert(x, round_to);
    } else {
      for (double& x : numbers) x = convert(x, [](Precision, double y) { return y; });
    }
    target.store(block.data(), out, size);
  });
}

void decode(const Elements& decoded, const Elements& encoded, const std::byte* from, std::byte* to, size_t count,
            const Number& scale, const Number& offset) {
  const Precision quotient = with_number(encoded.precision, scale);
  const Precision sum = with_number(quotient, offset);
  const double divisor = round_to(quotient, scale.value);
  const double summand = round_to(sum, offset.value);
  convert_in(sum, encoded, from, decoded, to, count,
             [=](double x, auto round) { return round(sum, round(quotient, x / divisor) + summand); });
}

/// For integer differences; the products are integers too, or double.
void encode_integers(const Elements& decoded, const Elements& encoded, const std::byte* from, std::byte* to,
                     size_t count, const Number& scale, uint64_t offset, IntegerType difference) {
  const auto product = scale.integer ? difference.with_number(*scale.integer) : std::optional<IntegerType>{};
  in_blocks(from, decoded.size, to, encoded.size, count, [&](const std::byte* in, std::byte* out, size_t size) {
    std::array<uint64_t, kBlock> block;
    decoded.load_integers(in, block.data(), size);
    const std::span numbers(block.data(), size);
    for (uint64_t& x : numbers) x = difference.wrap(x - offset);
    if (product) {
      const auto factor = static_cast<uint64_t>(*scale.integer);
      for (uint64_t& x : numbers) x = product->wrap(x * factor);
      return (product->is_signed ? encoded.store_signed : encoded.store_unsigned)(block.data(), out, size);
    }
    std::array<double, kBlock> products;
    for (size_t i = 0; i < size; ++i) {
      const double x =
          difference.is_signed ? static_cast<double>(static_cast<int64_t>(block[i])) : static_cast<double>(block[i]);
      products[i] = std::nearbyint(x * scale.value);
    }
    encoded.store(products.data(), out, size);
  });
}

void encode(const Elements& decoded, const Elements& encoded, const std::byte* from, std::byte* to, size_t count,
            const Number& scale, const Number& offset) {
  if (decoded.integer && offset.integer) {
    if (const auto difference = decoded.integer->with_number(*offset.integer))
      return encode_integers(decoded, encoded, from, to, count, scale, static_cast<uint64_t>(*offset.integer),
                             *difference);
  }
  const Precision difference = with_number(decoded.precision, offset);
  const Precision product = with_number(difference, scale);
  const double summand = round_to(difference, offset.value);
  const double factor = round_to(product, scale.value);
  convert_in(product, decoded, from, encoded, to, count, [=](double x, auto round) {
    return std::nearbyint(round(product, round(difference, x - summand) * factor));
  });
}

Result<Coder> make_coder(const StageContext& context) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
  CODECFS_ASSIGN(const Number scale, read_number(context.stage.codec, "scale"));
  CODECFS_ASSIGN(const Number offset, read_number(context.stage.codec, "offset"));
  if (scale.value == 0) return fail(EINVAL, "\"scale\" is 0");
  const auto elements_for = [](const DataType& type) {
    return visit_number_type(type, [](auto element) -> Result<Elements> { return elements_of<decltype(element)>(); });
  };
  CODECFS_ASSIGN(const Elements decoded, elements_for(types.decoded));
  CODECFS_ASSIGN(const Elements encoded, elements_for(types.encoded));
  Coder coder = make_element_coder(
      types,
      [=](const std::byte* from, std::byte* to, size_t count) {
        decode(decoded, encoded, from, to, count, scale, offset);
      },
      [=](const std::byte* from, std::byte* to, size_t count) {
        encode(decoded, encoded, from, to, count, scale, offset);
      });
  coder.encoded_chunk = retyped(context.chunk, types.encoded);
  return coder;
}

}  // namespace

Filter make_filter() { return {.name = "fixedscaleoffset", .codec = "fixedscaleoffset", .make_coder = make_coder}; }

}  // namespace codecfs::filters::codecs::fixedscaleoffset
