// Conversion of elements, for astype and quantize.

#include "filters/codecs/cast.h"

namespace codecfs::filters::codecs {

Result<Decoder> make_cast_decoder(const ElementTypes& types) {
  if (types.decoded == types.encoded)
    return Decoder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; }, .encoded = {}};
  return visit_number_type(types.decoded, [&](auto decoded) -> Result<Decoder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Decoder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      return make_element_decoder(types, [](const std::byte* from, std::byte* to, size_t count) {
        decode_each<Decoded, Encoded>(from, to, count,
                                      [](Encoded stored) { return element_of<Decoded>(value_of(stored)); });
      });
    });
  });
}

}  // namespace codecfs::filters::codecs
