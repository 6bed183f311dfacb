// The common part of codecs that compute elements.

#include "filters/codecs/element_types.h"

#include <utility>

#include "model/json.h"

namespace codecfs::filters::codecs {
namespace {

/// `code`: the errno if the chunk is not a whole number of elements.
Result<Buffer> convert(Buffer in, const DataType& from, const DataType& to, const CheckedLoop& loop, int code) {
  const size_t size = from.size;
  if (in.size() % size != 0)
    return fail(code, "{} bytes are not a whole number of elements of {} bytes", in.size(), size);
  const size_t count = in.size() / size;
  if (is_foreign_order(from)) swap_elements(in.mutable_bytes(), size);
  Buffer separate;
  if (to.size != size) {
    CODECFS_ASSIGN(separate, Buffer::allocate(count * to.size));
  }
  Buffer& out = to.size == size ? in : separate;
  CODECFS_TRY(loop(in.data(), out.data(), count));
  if (is_foreign_order(to)) swap_elements(out.mutable_bytes(), to.size);
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

Coder make_checked_coder(ElementTypes types, CheckedLoop decode, CheckedLoop encode) {
  auto encoded = resizes_elements(types.decoded.size, types.encoded.size);
  return {.decode = [types, decode = std::move(decode)](
                        Buffer in,
                        const SizeBound&) { return convert(std::move(in), types.encoded, types.decoded, decode, EIO); },
          .encode = [types, encode = std::move(encode)](Bytes in) -> Result<Buffer> {
            CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(in));
            return convert(std::move(copy), types.decoded, types.encoded, encode, EINVAL);
          },
          .encoded = std::move(encoded),
          .encoded_chunk = {}};
}

Coder make_element_coder(ElementTypes types, ElementLoop decode, ElementLoop encode) {
  const auto checked = [](ElementLoop loop) -> CheckedLoop {
    return [loop = std::move(loop)](const std::byte* from, std::byte* to, size_t count) -> Result<> {
      loop(from, to, count);
      return {};
    };
  };
  return make_checked_coder(std::move(types), checked(std::move(decode)), checked(std::move(encode)));
}

}  // namespace codecfs::filters::codecs
