// Conversion of elements, for astype and quantize.

#include "filters/codecs/cast.h"

namespace codecfs::filters::codecs {

Result<Coder> make_cast_coder(const ElementTypes& types) {
  if (types.decoded == types.encoded)
    return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; }, .encoded = {}};
  return visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      return make_element_coder(types, [](const std::byte* from, std::byte* to, size_t count) {
        decode_each<Decoded, Encoded>(from, to, count,
                                      [](Encoded stored) { return element_of<Decoded>(value_of(stored)); });
      });
    });
  });
}

}  // namespace codecfs::filters::codecs
