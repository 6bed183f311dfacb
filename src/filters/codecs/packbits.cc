// packbits: numcodecs "packbits". Bools as bits, the first in the highest bit of its byte.
//
//   bits that pad the last byte (0..7) | bits                                          {"id": "packbits"}

#include "filters/filter.h"
#include "filters/output_buffer.h"

namespace codecfs::filters::codecs {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.empty()) return fail(EIO, "the first byte is missing");
  const auto padding = static_cast<uint8_t>(in.data()[0]);
  const size_t bits = (in.size() - 1) * 8;
  if (padding > 7 || padding > bits) return fail(EIO, "the first byte says {} bits of padding", padding);
  const size_t size = bits - padding;
  if (size > bound.max) return too_large(bound);
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  for (size_t i = 0; i < size; ++i) out.data()[i] = (in.data()[1 + i / 8] >> (7 - i % 8)) & std::byte{1};
  return out;
}

SizeBound encoded(const SizeBound& decoded) {
  const auto packed = [](uint64_t bits) { return 1 + bits / 8 + (bits % 8 != 0 ? 1 : 0); };
  if (decoded.exact) return SizeBound::exactly(packed(*decoded.exact));
  return {.max = packed(decoded.max), .exact = std::nullopt};
}

}  // namespace

Filter packbits() {
  return {
      .name = "packbits",
      .codec = "packbits",
      .make_coder = [](const StageContext&) -> Result<Coder> { return Coder{.decode = decode, .encoded = encoded}; },
  };
}

}  // namespace codecfs::filters::codecs
