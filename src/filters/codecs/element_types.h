#pragma once
// The common part of numcodecs' numeric codecs: their two dtypes, and the loop over all elements.

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

/// Converts `count` elements in native byte order. `from` and `to` are equal if both types have the same size.
using ElementLoop = std::function<void(const std::byte* from, std::byte* to, size_t count)>;

/// Runs `decode` or `encode` over a chunk, in place if both types have the same size. If the chunk is not a whole
/// number of elements: EIO when decoding, EINVAL when encoding.
Coder make_element_coder(ElementTypes types, ElementLoop decode, ElementLoop encode);

/// As make_element_coder(), with loops that can fail: EIO when decoding, EINVAL when encoding.
using CheckedLoop = std::function<Result<>(const std::byte* from, std::byte* to, size_t count)>;
Coder make_checked_coder(ElementTypes types, CheckedLoop decode, CheckedLoop encode);

/// Calls `convert(From) -> To` for each element in order.
template <class To, class From, class Convert>
void convert_each(const std::byte* from, std::byte* to, size_t count, Convert convert) {
  for (size_t i = 0; i < count; ++i)
    store_element<To>(to + i * sizeof(To), convert(load_element<From>(from + i * sizeof(From))));
}

}  // namespace codecfs::filters::codecs
