#pragma once
// The two dtypes that numcodecs' computing codecs name.

#include <string>
#include <utility>

#include "filters/codec_fields.h"

namespace codecfs::filters::codecs {

struct ElementTypes {
  DataType decoded;
  DataType encoded;
};

/// "dtype" (the decoded type) is required, "astype" (the encoded type) defaults to it. EINVAL.
inline Result<ElementTypes> read_element_types(const Json& codec, const char* decoded_key = "dtype",
                                               const char* encoded_key = "astype") {
  CODECFS_ASSIGN(std::optional<DataType> decoded, dtype_field(codec, decoded_key));
  if (!decoded) return fail(EINVAL, "\"{}\" is missing", decoded_key);
  CODECFS_ASSIGN(std::optional<DataType> encoded, dtype_field(codec, encoded_key));
  if (!encoded) encoded = decoded;
  return ElementTypes{*std::move(decoded), *std::move(encoded)};
}

}  // namespace codecfs::filters::codecs
