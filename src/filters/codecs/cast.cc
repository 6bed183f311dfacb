// Converts elements, for astype and quantize.

#include "filters/codecs/cast.h"

namespace codecfs::filters::codecs {

namespace {

template <class To, class From>
void cast_each(const std::byte* from, std::byte* to, size_t count) {
  convert_each<To, From>(from, to, count, [](From element) { return element_of<To>(value_of(element)); });
}

}  // namespace

Result<Coder> make_cast_coder(const ElementTypes& types) {
  if (types.decoded == types.encoded)
    return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; },
                 .encode = Buffer::copy_of,
                 .encoded = {}};
  return visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      return make_element_coder(types, cast_each<Decoded, Encoded>, cast_each<Encoded, Decoded>);
    });
  });
}

}  // namespace codecfs::filters::codecs
