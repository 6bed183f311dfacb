// scale_offset: zarr-extensions "scale_offset". Stores (x - offset) * scale in the arithmetic of the elements' type.
//
//   {"id": "zarr3:scale_offset", "offset": 5, "scale": 0.1}      both optional, as fill values of the type
//
// As the specification demands, a result that the type cannot hold is an error: an integer out of range, a division
// with a remainder, a float that overflows while it is encoded. NaN and infinities go through.

#include <bit>
#include <utility>

#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"
#include "model/zarr3_type.h"

namespace codecfs::filters::codecs::scale_offset {
namespace {

Result<> check_members(const Json& codec) {
  for (const auto& [key, value] : codec.items())
    if (key != "id" && key != "offset" && key != "scale") return fail(EINVAL, "\"{}\" is not known", key);
  return {};
}

/// The member as an element of the type, in native byte order; `fallback` if it is missing.
template <class T>
Result<T> scalar_of(const Json& codec, const char* key, const DataType& type, int fallback) {
  const auto given = codec.find(key);
  if (given == codec.end()) return element_of<T>(fallback);
  const ByteOrder native = std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;
  const auto bytes = zarr3_fill_bytes({with_byte_order(type, native), {}, {}}, *given);
  if (!bytes) return fail(EINVAL, "\"{}\": {}", key, bytes.error().reason);
  return load_element<T>(bytes->data());
}

template <IntegerElement T>
std::unexpected<Error> out_of_range(int code, T element) {
  return fail(code, "the element {} with \"scale\" and \"offset\" is out of range of its type", element);
}

template <IntegerElement T>
Result<> encode_all(const std::byte* from, std::byte* to, size_t count, T offset, T scale) {
  for (size_t i = 0; i < count; ++i) {
    const T element = load_element<T>(from + i * sizeof(T));
    T result{};
    if (__builtin_sub_overflow(element, offset, &result) || __builtin_mul_overflow(result, scale, &result))
      return out_of_range(EINVAL, element);
    store_element<T>(to + i * sizeof(T), result);
  }
  return {};
}

template <IntegerElement T>
Result<> decode_all(const std::byte* from, std::byte* to, size_t count, T offset, T scale) {
  for (size_t i = 0; i < count; ++i) {
    const T element = load_element<T>(from + i * sizeof(T));
    T quotient{};
    T result{};
    // The quotient of the lowest number and -1 overflows, and so may its remainder.
    const bool is_negated = std::is_signed_v<T> && scale == static_cast<T>(-1);
    if (is_negated) {
      if (__builtin_sub_overflow(offset, element, &result)) return out_of_range(EIO, element);
      store_element<T>(to + i * sizeof(T), result);
      continue;
    }
    quotient = static_cast<T>(element / scale);
    if (static_cast<T>(quotient * scale) != element)
      return fail(EIO, "the element {} is not a multiple of \"scale\" {}", element, scale);
    if (__builtin_add_overflow(quotient, offset, &result)) return out_of_range(EIO, element);
    store_element<T>(to + i * sizeof(T), result);
  }
  return {};
}

/// The value in the precision of T. Half arithmetic may be computed in double: the result is the same.
template <FloatElement T>
auto rounded(double value) {
  return value_of(element_of<T>(value));
}

template <FloatElement T>
Result<> encode_all(const std::byte* from, std::byte* to, size_t count, T offset, T scale) {
  const auto summand = value_of(offset);
  const auto factor = value_of(scale);
  for (size_t i = 0; i < count; ++i) {
    const auto element = value_of(load_element<T>(from + i * sizeof(T)));
    const auto result = rounded<T>(rounded<T>(element - summand) * factor);
    if (std::isfinite(element) && !std::isfinite(result))
      return fail(EINVAL, "the element {} with \"scale\" and \"offset\" is out of range of its type", element);
    store_element<T>(to + i * sizeof(T), element_of<T>(result));
  }
  return {};
}

template <FloatElement T>
Result<> decode_all(const std::byte* from, std::byte* to, size_t count, T offset, T scale) {
  const auto summand = value_of(offset);
  const auto divisor = value_of(scale);
  for (size_t i = 0; i < count; ++i) {
    const auto element = value_of(load_element<T>(from + i * sizeof(T)));
    store_element<T>(to + i * sizeof(T), element_of<T>(rounded<T>(element / divisor) + summand));
  }
  return {};
}

Result<Coder> make_coder(const StageContext& context) {
  const Json& codec = context.stage.codec;
  const DataType& type = context.chunk.type;
  CODECFS_TRY(check_members(codec));
  if (!context.chunk.type_name.empty())
    return fail(EINVAL, "does not work on elements of data type {} here", context.chunk.type_name);
  return visit_number_type(type, [&](auto number) -> Result<Coder> {
    using T = decltype(number);
    if constexpr (std::same_as<T, Bool>) {
      return fail(EINVAL, "does not work on elements of data type bool");
    } else {
      CODECFS_ASSIGN(const T offset, scalar_of<T>(codec, "offset", type, 0));
      CODECFS_ASSIGN(const T scale, scalar_of<T>(codec, "scale", type, 1));
      if (value_of(scale) == 0) return fail(EINVAL, "\"scale\" is 0");
      if constexpr (FloatElement<T>) {
        if (!std::isfinite(value_of(scale)) || !std::isfinite(value_of(offset)))
          return fail(EINVAL, "\"scale\" and \"offset\" must be finite");
      }
      return make_checked_coder(
          {type, type},
          [=](const std::byte* from, std::byte* to, size_t count) {
            return decode_all<T>(from, to, count, offset, scale);
          },
          [=](const std::byte* from, std::byte* to, size_t count) {
            return encode_all<T>(from, to, count, offset, scale);
          });
    }
  });
}

}  // namespace

Filter make_filter() {
  return {.name = "scale_offset",
          .codec = std::string(kScaleOffset),
          .check_new = [](const FilterStage& stage, uint64_t) { return check_members(stage.codec); },
          .make_coder = make_coder};
}

}  // namespace codecfs::filters::codecs::scale_offset
