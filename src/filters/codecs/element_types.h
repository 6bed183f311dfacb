#pragma once
// What numcodecs' computing codecs share: the two dtypes that they name, and the way over all elements.

#include <cstddef>
#include <functional>

#include "filters/codec_fields.h"
#include "filters/filter.h"
#include "filters/number_types.h"

namespace codecfs::filters::codecs {

struct ElementTypes {
  DataType decoded;
  DataType encoded;
};

/// "dtype" (the decoded type) is required, "astype" (the encoded type) defaults to it. EINVAL.
Result<ElementTypes> read_element_types(const Json& codec, const char* decoded_key = "dtype",
                                        const char* encoded_key = "astype");

/// Decodes `count` elements, in this machine's byte order. The places are the same where the sizes are.
using ElementLoop = std::function<void(const std::byte* from, std::byte* to, size_t count)>;

/// A decoder that runs `loop` over a chunk; in place where both types have the same size.
Coder make_element_coder(ElementTypes types, ElementLoop loop);

/// `decode(Encoded) -> Decoded` for each element in turn.
template <class Decoded, class Encoded, class Decode>
void decode_each(const std::byte* from, std::byte* to, size_t count, Decode decode) {
  for (size_t i = 0; i < count; ++i)
    store_element<Decoded>(to + i * sizeof(Decoded), decode(load_element<Encoded>(from + i * sizeof(Encoded))));
}

}  // namespace codecfs::filters::codecs
