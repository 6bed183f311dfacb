// crc32c: numcodecs "crc32c". CRC-32 with Castagnoli's polynomial (RFC 3720), behind the data.
//
//   data | LE32 checksum                                     {"id": "crc32c"}, also "location": "start" or "end"

#include "filters/codecs/crc32c.h"

#include <array>

#include "filters/codecs/checksum32.h"
#include "filters/codecs/number_types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace codecfs::filters::codecs {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? c >> 1 ^ 0x82F63B78 : c >> 1;
    table[i] = c;
  }
  return table;
}();

uint32_t by_table(uint32_t c, const std::byte* data, size_t size) {
  for (size_t i = 0; i < size; ++i) c = c >> 8 ^ kTable[(c ^ static_cast<uint8_t>(data[i])) & 0xff];
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) uint32_t by_instruction(uint32_t c, const std::byte* data, size_t size) {
  uint64_t wide = c;
  for (; size >= 8; size -= 8, data += 8) wide = _mm_crc32_u64(wide, load_element<uint64_t>(data));
  c = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++data) c = _mm_crc32_u8(c, static_cast<uint8_t>(*data));
  return c;
}
#endif

}  // namespace

uint32_t crc32c_of(const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(~0U, bytes, size);
#endif
  return ~by_table(~0U, bytes, size);
}

namespace crc32c {

Filter make_filter() {
  return {
      .name = "crc32c",
      .codec = "crc32c",
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        return make_checksum_coder(context, "end", crc32c_of);
      },
  };
}

}  // namespace crc32c

}  // namespace codecfs::filters::codecs
