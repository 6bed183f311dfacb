// fixedscaleoffset: numcodecs "fixedscaleoffset". round((x - offset) * scale), as elements of astype.
//
//   {"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}
//
// Decoded as numpy does it: stored integers in double, stored floats in their own precision.

#include "filters/codecs/element_types.h"
#include "filters/filter.h"
#include "filters/number_types.h"

namespace codecfs::filters::codecs {
namespace {

template <class Decoded, class Encoded>
void decode(const std::byte* from, std::byte* to, size_t count, double scale, double offset) {
  using Number = std::conditional_t<FloatElement<Encoded>, Encoded, double>;
  const auto divisor = value_of(element_of<Number>(scale));
  const auto summand = value_of(element_of<Number>(offset));
  decode_each<Decoded, Encoded>(from, to, count, [&](Encoded stored) {
    const auto quotient = element_of<Number>(value_of(element_of<Number>(value_of(stored))) / divisor);
    return element_of<Decoded>(value_of(element_of<Number>(value_of(quotient) + summand)));
  });
}

Result<Coder> make_coder(const StageContext& context) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
  CODECFS_ASSIGN(const double scale, number_field(context.stage.codec, "scale"));
  CODECFS_ASSIGN(const double offset, number_field(context.stage.codec, "offset"));
  if (scale == 0) return fail(EINVAL, "\"scale\" is 0");
  return visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      return make_element_coder(types, [=](const std::byte* from, std::byte* to, size_t count) {
        decode<Decoded, Encoded>(from, to, count, scale, offset);
      });
    });
  });
}

}  // namespace

Filter fixedscaleoffset() {
  return {.name = "fixedscaleoffset", .codec = "fixedscaleoffset", .make_coder = make_coder};
}

}  // namespace codecfs::filters::codecs
