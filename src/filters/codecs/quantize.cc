// quantize: numcodecs "quantize". Rounds floats to a number of decimal digits, that is, to multiples of a power of 2.
// Decoding only converts the dtype.
//
//   {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}

#include "filters/codecs/cast.h"
#include "filters/core/encoded_type.h"

namespace codecfs::filters::codecs::quantize {
namespace {

constexpr int kMaxDigits = 300;

/// The factor that is applied before rounding, computed as numcodecs does, rounding errors included.
double scale_for(int64_t digits) {
  const double exponent = std::log(std::pow(10.0, static_cast<double>(-digits))) / std::log(10.0);
  const double whole = exponent < 0 ? std::floor(exponent) : std::ceil(exponent);
  return std::pow(2.0, std::ceil(std::log(std::pow(10.0, -whole)) / std::log(2.0)));
}

/// Computes in `Number`: Decoded or, if that cannot hold the scale, the next wider type (as numpy 1 does).
template <class Number, class Decoded, class Encoded>
void quantize_in(const std::byte* from, std::byte* to, size_t count, double scale) {
  const auto factor = value_of(element_of<Number>(scale));
  convert_each<Encoded, Decoded>(from, to, count, [=](Decoded x) {
    const auto product = value_of(element_of<Number>(value_of(element_of<Number>(value_of(x))) * factor));
    return element_of<Encoded>(value_of(element_of<Number>(std::nearbyint(product) / factor)));
  });
}

template <class Decoded, class Encoded>
void quantize_all(const std::byte* from, std::byte* to, size_t count, double scale) {
  if (sizeof(Decoded) == 8 || scale >= 3.4e38) return quantize_in<double, Decoded, Encoded>(from, to, count, scale);
  if (sizeof(Decoded) == 4 || scale >= 65000) return quantize_in<float, Decoded, Encoded>(from, to, count, scale);
  quantize_in<Decoded, Decoded, Encoded>(from, to, count, scale);
}

Result<> check_new(const FilterStage& stage, uint64_t) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(stage.codec));
  if (types.decoded.kind != TypeKind::floating || types.encoded.kind != TypeKind::floating)
    return fail(EINVAL, "only floats can be quantized");
  CODECFS_ASSIGN(const double digits, number_field(stage.codec, "digits"));
  if (!(std::fabs(digits) <= kMaxDigits))
    return fail(EINVAL, "\"digits\": {} is not between -{} and {}", digits, kMaxDigits, kMaxDigits);
  return {};
}

Result<Coder> make_coder(const StageContext& context) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
  CODECFS_ASSIGN(Coder coder, make_cast_coder(types));
  // Parse the digits here: only the encoder needs them, and decoding must work without them.
  coder.encode = [types, codec = context.stage.codec](Bytes in) -> Result<Buffer> {
    CODECFS_ASSIGN(const double digits, number_field(codec, "digits"));
    if (!(std::fabs(digits) <= kMaxDigits)) return fail(EINVAL, "\"digits\": {} is out of range", digits);
    const double scale = scale_for(static_cast<int64_t>(digits));
    CODECFS_ASSIGN(const Coder element_coder, visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
                     return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
                       using Decoded = decltype(decoded);
                       using Encoded = decltype(encoded);
                       if constexpr (FloatElement<Decoded> && FloatElement<Encoded>) {
                         return make_element_coder(types, {}, [scale](const std::byte* from, std::byte* to, size_t n) {
                           quantize_all<Decoded, Encoded>(from, to, n, scale);
                         });
                       } else {
                         return fail(EINVAL, "only floats can be quantized");
                       }
                     });
                   }));
    return element_coder.encode(in);
  };
  coder.encoded_chunk = retyped(context.chunk, types.encoded);
  return coder;
}

}  // namespace

Filter make_filter() {
  return {.name = "quantize", .codec = "quantize", .check_new = check_new, .make_coder = make_coder};
}

}  // namespace codecfs::filters::codecs::quantize
