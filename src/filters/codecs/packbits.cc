// packbits: numcodecs "packbits". Stores bools as bits, the first in the highest bit of its byte.
//
//   number of padding bits in the last byte (0..7) | bits                              {"id": "packbits"}

#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"

namespace codecfs::filters::codecs::packbits {
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

Result<Buffer> encode(Bytes in) {
  const size_t whole = in.size() / 8;
  const size_t left = in.size() % 8;
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(1 + whole + (left != 0 ? 1 : 0)));
  out.data()[0] = static_cast<std::byte>(left != 0 ? 8 - left : 0);
  const auto pack = [&](size_t first, size_t bits) {
    unsigned byte = 0;
    for (size_t i = 0; i < bits; ++i) byte |= (in[first + i] != std::byte{0} ? 0x80U : 0U) >> i;
    return static_cast<std::byte>(byte);
  };
  for (size_t i = 0; i < whole; ++i) out.data()[1 + i] = pack(i * 8, 8);
  if (left != 0) out.data()[1 + whole] = pack(whole * 8, left);
  return out;
}

}  // namespace

Filter make_filter() {
  return {
      .name = "packbits",
      .codec = "packbits",
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = decode, .encode = encode, .encoded = encoded};
      },
  };
}

}  // namespace codecfs::filters::codecs::packbits
