// cast_value: zarr-extensions "cast_value". Stores the elements as another type of real numbers.
//
//   {"id": "zarr3:cast_value", "data_type": "uint8", "rounding": "nearest-even", "out_of_range": "clamp",
//    "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}               all but data_type optional
//
// Both directions follow the same rules, with the types exchanged. A member "endian" ("big") is not Zarr's: it is the
// byte order of the encoded elements where the array's type does not have one (encoded_type.h).

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/endian.h"
#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/codecs/rounding.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"
#include "model/small_float.h"
#include "model/zarr3_type.h"

namespace codecfs::filters::codecs::cast_value {
namespace {

constexpr size_t kBlock = 256;         // elements that are converted at once
constexpr size_t kMaxScalars = 65536;  // of a scalar map, in one direction
constexpr size_t kMaxElement = 8;      // bytes

/// How the elements of a type become numbers, and back. The types of both sides are converted apart, as in
/// fixedscaleoffset: code for each pair of types would be large.
struct Elements {
  ElementType type;  // in native byte order
  NumberFormat format;
  std::function<void(const std::byte* from, double* to, size_t count)> load;  // one of both pairs is set
  std::function<void(const double* from, std::byte* to, size_t count)> store;
  std::function<void(const std::byte* from, WideInteger* to, size_t count)> load_integers;
  std::function<void(const WideInteger* from, std::byte* to, size_t count)> store_integers;

  [[nodiscard]] size_t size() const { return type.type.size; }
  [[nodiscard]] std::string text() const {
    return type.name.empty() ? print_json(print_dtype(type.type)) : fmt::format("\"{}\"", type.name);
  }
};

template <class T, class Number>
void load_as(const std::byte* from, Number* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<Number>(value_of(load_element<T>(from + i * sizeof(T))));
}

template <class T, class Number>
void store_from(const Number* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if constexpr (FloatElement<T>)
      store_element<T>(to + i * sizeof(T), element_of<T>(from[i]));
    else
      store_element<T>(to + i * sizeof(T), static_cast<T>(from[i]));
  }
}

/// bfloat16 is the upper half of a float.
void load_bfloat16(const std::byte* from, double* to, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(uint32_t{load_le<uint16_t>(from + i * sizeof(uint16_t))} << 16);
}

void store_bfloat16(const double* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(from[i]));
    if (std::isnan(from[i])) bits |= 0x400000;  // which bits of a NaN are set in the lower half does not matter
    store_le(to + i * sizeof(uint16_t), static_cast<uint16_t>(bits >> 16));
  }
}

/// All values of a format of one byte.
struct SmallValues {
  const SmallFloat& format;
  std::array<double, 256> of_bits{};
  std::vector<double> finite;  // those without sign: the index has the bits

  explicit SmallValues(const SmallFloat& small) : format(small) {
    for (uint32_t bits = 0; bits < of_bits.size(); ++bits) of_bits.at(bits) = small_float_value(small, bits);
    const double largest = largest_value(small);
    for (const double value : of_bits) {
      finite.push_back(value);
      if (value == largest) break;
    }
  }
  /// `value`: one that the format can represent.
  [[nodiscard]] uint8_t bits_of(double value) const {
    if (!std::isfinite(value)) return static_cast<uint8_t>(small_float_bits(format, value).value_or(0));
    const auto bits = static_cast<unsigned>(std::ranges::lower_bound(finite, std::fabs(value)) - finite.begin());
    const bool has_sign = std::signbit(value) && (bits != 0 || format.nan != SmallFloat::Nan::negative_zero);
    return static_cast<uint8_t>(bits | (has_sign ? 1U << (format.exponent + format.mantissa) : 0U));
  }
};

Elements small_floats(const ElementType& type, const SmallFloat& small) {
  Elements elements{type, NumberFormat::of(small), load_bfloat16, store_bfloat16, {}, {}};
  if (small.bytes > 1) return elements;
  const auto values = std::make_shared<const SmallValues>(small);
  elements.load = [values](const std::byte* from, double* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = values->of_bits[static_cast<uint8_t>(from[i])];
  };
  elements.store = [values](const double* from, std::byte* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(values->bits_of(from[i]));
  };
  return elements;
}

/// Bits above those of the integer are arbitrary.
Elements small_integers(const ElementType& type, const SmallInt& small) {
  Elements elements{type, NumberFormat::of(small), {}, {}, {}, store_from<int8_t, WideInteger>};
  const unsigned unused = 8 - small.bits();
  elements.load_integers = [unused, is_signed = small.is_signed](const std::byte* from, WideInteger* to, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const auto shifted = static_cast<uint8_t>(static_cast<unsigned>(from[i]) << unused);
      to[i] = is_signed ? static_cast<int8_t>(shifted) >> unused : shifted >> unused;
    }
  };
  return elements;
}

Result<Elements> elements_of(const ElementType& element_type) {
  if (const SmallFloat* small = small_float_named(element_type.name)) return small_floats(element_type, *small);
  if (const SmallInt* small = small_int_named(element_type.name)) return small_integers(element_type, *small);
  if (!element_type.name.empty())
    return fail(EINVAL, "does not work on elements of data type {}, which are no real numbers", element_type.name);
  const DataType& type = element_type.type;
  const ByteOrder native = std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;
  return visit_number_type(type, [&](auto number) -> Result<Elements> {
    using T = decltype(number);
    Elements elements{{with_byte_order(type, native), {}}, NumberFormat::of(type), {}, {}, {}, {}};
    if constexpr (std::same_as<T, Bool>) {
      return fail(EINVAL, "does not work on elements of data type bool");
    } else if constexpr (FloatElement<T>) {
      elements.load = load_as<T, double>;
      elements.store = store_from<T, double>;
    } else {
      elements.load_integers = load_as<T, WideInteger>;
      elements.store_integers = store_from<T, WideInteger>;
    }
    return elements;
  });
}

/// Elements that are not converted, but mapped to others.
template <class Number>
class ScalarMap {
 public:
  /// `pairs`: a list of pairs of fill values. EINVAL.
  static Result<ScalarMap> parse(const Json& pairs, const Elements& source, const Elements& target);

  /// The element that the number is mapped to; null if it is converted.
  [[nodiscard]] const std::byte* find(Number number) const {
    if constexpr (std::floating_point<Number>) {
      if (std::isnan(number)) return nan_ ? elements_[*nan_].data() : nullptr;
    }
    const auto found = std::ranges::lower_bound(keys_, number, {}, &Key::number);
    return found != keys_.end() && found->number == number ? elements_[found->index].data() : nullptr;
  }
  [[nodiscard]] bool empty() const { return elements_.empty(); }

 private:
  struct Key {
    Number number;
    size_t index;
  };
  std::vector<Key> keys_;  // sorted; of equal ones the first counts
  std::optional<size_t> nan_;
  std::vector<std::array<std::byte, kMaxElement>> elements_;
};

Result<std::vector<std::byte>> scalar_bytes(const ElementType& type, Json value) {
  if (value == "+Infinity") value = "Infinity";  // as in the specification's example
  auto bytes = zarr3_fill_bytes({type.type, {}, type.name}, value);
  if (!bytes) return fail(EINVAL, "\"scalar_map\": {}", bytes.error().reason);
  return bytes;
}

template <class Number>
Result<ScalarMap<Number>> ScalarMap<Number>::parse(const Json& pairs, const Elements& source, const Elements& target) {
  ScalarMap map;
  if (pairs.is_null()) return map;
  if (!pairs.is_array() || pairs.size() > kMaxScalars)
    return fail(EINVAL, "\"scalar_map\" has no list of at most {} pairs", kMaxScalars);
  for (const Json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2)
      return fail(EINVAL, "\"scalar_map\": {} is not a pair of scalars", print_json(pair));
    CODECFS_ASSIGN(const auto key, scalar_bytes(source.type, pair[0]));
    CODECFS_ASSIGN(const auto value, scalar_bytes(target.type, pair[1]));
    Number number{};
    if constexpr (std::floating_point<Number>)
      source.load(key.data(), &number, 1);
    else
      source.load_integers(key.data(), &number, 1);
    const size_t index = map.elements_.size();
    std::ranges::copy(value, map.elements_.emplace_back().begin());
    if constexpr (std::floating_point<Number>) {
      if (std::isnan(number)) {
        map.nan_ = map.nan_.value_or(index);
        continue;
      }
    }
    map.keys_.push_back({number, index});
  }
  std::ranges::stable_sort(map.keys_, {}, &Key::number);
  return map;
}

/// Converts in one direction.
class Conversion {
 public:
  static Result<Conversion> make(const Elements& source, const Elements& target, ConversionRule rule,
                                 const Json& pairs) {
    Conversion conversion(source, target, rule);
    if (rule.out_of_range == OutOfRange::wrap && target.format.is_float)
      conversion.rule_.out_of_range = OutOfRange::refuse;
    if (source.format.is_float) {
      CODECFS_ASSIGN(conversion.floats_, ScalarMap<double>::parse(pairs, source, target));
    } else {
      CODECFS_ASSIGN(conversion.integers_, ScalarMap<WideInteger>::parse(pairs, source, target));
    }
    return conversion;
  }

  /// `code`: the errno for an element that cannot be converted.
  Result<> run(const std::byte* from, std::byte* to, size_t count, int code) const {
    for (size_t done = 0; done < count; done += kBlock) {
      const std::byte* const in = from + done * source_.size();
      std::byte* const out = to + done * target_.size();
      const size_t size = std::min(kBlock, count - done);
      if (source_.format.is_float) {
        std::array<double, kBlock> numbers;
        source_.load(in, numbers.data(), size);
        CODECFS_TRY(convert(std::span<const double>(numbers.data(), size), floats_, out, code));
      } else {
        std::array<WideInteger, kBlock> numbers;
        source_.load_integers(in, numbers.data(), size);
        CODECFS_TRY(convert(std::span<const WideInteger>(numbers.data(), size), integers_, out, code));
      }
    }
    return {};
  }

 private:
  Conversion(Elements source, Elements target, ConversionRule rule)
      : source_(std::move(source)), target_(std::move(target)), rule_(rule) {}

  template <class Number>
  Result<> convert(std::span<const Number> numbers, const ScalarMap<Number>& map, std::byte* to, int code) const;

  Elements source_;
  Elements target_;
  ConversionRule rule_;
  ScalarMap<double> floats_;         // where the source has floats
  ScalarMap<WideInteger> integers_;  // else
};

template <class Number>
Result<> Conversion::convert(std::span<const Number> numbers, const ScalarMap<Number>& map, std::byte* to,
                             int code) const {
  const auto convert_to = [&](auto* results, auto converted, auto store) -> Result<> {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const bool is_mapped = !map.empty() && map.find(numbers[i]) != nullptr;
      const auto result = is_mapped ? decltype(converted(numbers[i]))(0) : converted(numbers[i]);
      if (!result)
        return fail(code, "the element {} is out of range of {}, and neither \"out_of_range\" nor \"scalar_map\" helps",
                    static_cast<double>(numbers[i]), target_.text());
      results[i] = *result;
    }
    store(results, to, numbers.size());
    return {};
  };
  if (target_.format.is_float) {
    std::array<double, kBlock> results;
    CODECFS_TRY(convert_to(
        results.data(), [&](Number number) { return float_of(number, target_.format, rule_); }, target_.store));
  } else {
    std::array<WideInteger, kBlock> results;
    CODECFS_TRY(convert_to(
        results.data(), [&](Number number) { return integer_of(number, target_.format, rule_); },
        target_.store_integers));
  }
  if (map.empty()) return {};
  for (size_t i = 0; i < numbers.size(); ++i)
    if (const std::byte* const mapped = map.find(numbers[i]))
      std::copy_n(mapped, target_.size(), to + i * target_.size());
  return {};
}

/// The value of a member with one of these names; the first if it is missing. EINVAL.
template <class Value, size_t kCount>
Result<Value> named_value(const Json& codec, const char* key,
                          const std::array<std::pair<std::string_view, Value>, kCount>& values, Value fallback) {
  const auto given = codec.find(key);
  if (given == codec.end()) return fallback;
  for (const auto& [name, value] : values)
    if (*given == name) return value;
  return fail(EINVAL, "\"{}\": {} is not known", key, print_json(*given));
}

Result<ConversionRule> parse_rule(const Json& codec) {
  constexpr std::array<std::pair<std::string_view, Rounding>, 5> kRoundings{
      {{"nearest-even", Rounding::nearest_even},
       {"towards-zero", Rounding::towards_zero},
       {"towards-positive", Rounding::towards_positive},
       {"towards-negative", Rounding::towards_negative},
       {"nearest-away", Rounding::nearest_away}}};
  constexpr std::array<std::pair<std::string_view, OutOfRange>, 2> kRanges{
      {{"clamp", OutOfRange::clamp}, {"wrap", OutOfRange::wrap}}};
  for (const auto& [key, value] : codec.items())
    if (key != "id" && key != "data_type" && key != "rounding" && key != "out_of_range" && key != "scalar_map" &&
        key != "endian")
      return fail(EINVAL, "\"{}\" is not known", key);
  ConversionRule rule;
  CODECFS_ASSIGN(rule.rounding, named_value(codec, "rounding", kRoundings, Rounding::nearest_even));
  CODECFS_ASSIGN(rule.out_of_range, named_value(codec, "out_of_range", kRanges, OutOfRange::refuse));
  return rule;
}

/// The list of pairs for "encode" or "decode"; null if there is none. EINVAL.
Result<Json> scalar_pairs(const Json& codec, const char* direction) {
  const auto map = codec.find("scalar_map");
  if (map == codec.end() || map->is_null()) return Json();
  if (!map->is_object()) return fail(EINVAL, "\"scalar_map\": {} is not an object", print_json(*map));
  for (const auto& [key, value] : map->items())
    if (key != "encode" && key != "decode") return fail(EINVAL, "\"scalar_map\": \"{}\" is not known", key);
  return map->value(direction, Json());
}

Result<Coder> make_coder(const StageContext& context) {
  const Json& codec = context.stage.codec;
  CODECFS_ASSIGN(const ElementType type, cast_type(codec, context.chunk.type));
  CODECFS_ASSIGN(const ConversionRule rule, parse_rule(codec));
  CODECFS_ASSIGN(const Elements decoded, elements_of({context.chunk.type, context.chunk.type_name}));
  CODECFS_ASSIGN(const Elements encoded, elements_of(type));
  if (rule.out_of_range == OutOfRange::wrap && encoded.format.is_float)
    return fail(EINVAL, "\"out_of_range\": \"wrap\" is for integers");
  CODECFS_ASSIGN(const Json encode_pairs, scalar_pairs(codec, "encode"));
  CODECFS_ASSIGN(const Json decode_pairs, scalar_pairs(codec, "decode"));
  CODECFS_ASSIGN(auto encode, Conversion::make(decoded, encoded, rule, encode_pairs));
  CODECFS_ASSIGN(auto decode, Conversion::make(encoded, decoded, rule, decode_pairs));
  Coder coder = make_checked_coder(
      {context.chunk.type, type.type},
      [decode = std::move(decode)](const std::byte* from, std::byte* to, size_t count) {
        return decode.run(from, to, count, EIO);
      },
      [encode = std::move(encode)](const std::byte* from, std::byte* to, size_t count) {
        return encode.run(from, to, count, EINVAL);
      });
  coder.encoded_chunk = retyped(context.chunk, type.type, type.name);
  return coder;
}

}  // namespace

Filter make_filter() {
  return {.name = "cast_value",
          .codec = std::string(kCastValue),
          .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
            CODECFS_TRY(parse_rule(stage.codec));
            CODECFS_TRY(cast_type(stage.codec, {}));
            return {};
          },
          .make_coder = make_coder};
}

}  // namespace codecfs::filters::codecs::cast_value
