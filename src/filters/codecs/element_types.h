#pragma once
// What numcodecs' computing codecs share: the two dtypes that they name, and the way over all elements.

#include <cstddef>
#include <functional>

#include "filters/codecs/number_types.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs {

struct ElementTypes {
  DataType decoded;
  DataType encoded;
};

/// "dtype" (the decoded type) is required, "astype" (the encoded type) defaults to it. EINVAL.
Result<ElementTypes> read_element_types(const Json& codec, const char* decoded_key = "dtype",
                                        const char* encoded_key = "astype");

/// Computes `count` elements from others, in this machine's byte order. The places are the same where the sizes are.
using ElementLoop = std::function<void(const std::byte* from, std::byte* to, size_t count)>;

/// Runs `decode` or `encode` over a chunk; in place where both types have the same size. Elements that do not fill the
/// chunk are EIO when decoding, EINVAL when encoding.
Coder make_element_coder(ElementTypes types, ElementLoop decode, ElementLoop encode);

/// `convert(From) -> To` for each element in turn, first to last.
template <class To, class From, class Convert>
void convert_each(const std::byte* from, std::byte* to, size_t count, Convert convert) {
  for (size_t i = 0; i < count; ++i)
    store_element<To>(to + i * sizeof(To), convert(load_element<From>(from + i * sizeof(From))));
}

}  // namespace codecfs::filters::codecs
