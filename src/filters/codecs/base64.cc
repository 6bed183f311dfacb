// base64: numcodecs "base64". RFC 4648, section 4, with padding.
//
//   4 characters for 3 bytes                                                              {"id": "base64"}

#include "model/base64.h"

#include <string_view>

#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"

namespace codecfs::filters::codecs::base64 {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.size() / 4 * 3 > bound.max + 2) return too_large(bound);
  const auto bytes = decode_base64({reinterpret_cast<const char*>(in.data()), in.size()});
  if (!bytes) return fail(EIO, "this is not base64, or it is truncated");
  return Buffer::copy_of(*bytes);
}

SizeBound encoded(const SizeBound& decoded) {
  const auto text = [](uint64_t bytes) { return (bytes + 2) / 3 * 4; };
  if (decoded.exact) return SizeBound::exactly(text(*decoded.exact));
  return {.max = text(decoded.max), .exact = std::nullopt};
}

Result<Buffer> encode(Bytes in) {
  const std::string text = encode_base64(in);
  return Buffer::copy_of(std::as_bytes(std::span(text)));
}

}  // namespace

Filter make_filter() {
  return {
      .name = "base64",
      .codec = "base64",
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = decode, .encode = encode, .encoded = encoded};
      },
  };
}

}  // namespace codecfs::filters::codecs::base64
