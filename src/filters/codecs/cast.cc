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
      return Decoder{.decode =
                         [types](Buffer in, const SizeBound&) {
                           return convert_elements<Encoded, Decoded>(
                               std::move(in), types.encoded, types.decoded,
                               [](Encoded stored) { return element_of<Decoded>(value_of(stored)); });
                         },
                     .encoded = resizes_elements(sizeof(Decoded), sizeof(Encoded))};
    });
  });
}

}  // namespace codecfs::filters::codecs
