#pragma once
// CRC-32 with Castagnoli's polynomial. Source: RFC 3720, appendix B.4.

#include <cstddef>
#include <cstdint>

namespace codecfs::filters::codecs {

uint32_t crc32c_of(const void* data, size_t size);

}  // namespace codecfs::filters::codecs
