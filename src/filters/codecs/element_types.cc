// The common part of codecs that compute elements.

#include "filters/codecs/element_types.h"

#include <utility>

namespace codecfs::filters::codecs {
namespace {

Result<Buffer> decode_elements(Buffer in, const ElementTypes& types, const ElementLoop& loop) {
  const size_t size = types.encoded.size;
  if (in.size() % size != 0) return fail(EIO, "{} bytes are no whole number of elements of {} bytes", in.size(), size);
  const size_t count = in.size() / size;
  if (is_foreign_order(types.encoded)) swap_elements(in.mutable_bytes(), size);
  Buffer separate;
  if (types.decoded.size != size) {
    CODECFS_ASSIGN(separate, Buffer::allocate(count * types.decoded.size));
  }
  Buffer& out = types.decoded.size == size ? in : separate;
  loop(in.data(), out.data(), count);
  if (is_foreign_order(types.decoded)) swap_elements(out.mutable_bytes(), types.decoded.size);
  return std::move(out);
}

}  // namespace

Result<ElementTypes> read_element_types(const Json& codec, const char* decoded_key, const char* encoded_key) {
  CODECFS_ASSIGN(std::optional<DataType> decoded, dtype_field(codec, decoded_key));
  if (!decoded) return fail(EINVAL, "\"{}\" is missing", decoded_key);
  CODECFS_ASSIGN(std::optional<DataType> encoded, dtype_field(codec, encoded_key));
  if (!encoded) encoded = decoded;
  return ElementTypes{*std::move(decoded), *std::move(encoded)};
}

Coder make_element_coder(ElementTypes types, ElementLoop loop) {
  auto encoded = resizes_elements(types.decoded.size, types.encoded.size);
  return {.decode = [types = std::move(types), loop = std::move(loop)](
                        Buffer in, const SizeBound&) { return decode_elements(std::move(in), types, loop); },
          .encoded = std::move(encoded)};
}

}  // namespace codecfs::filters::codecs
