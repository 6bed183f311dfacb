// crc32: numcodecs "crc32". CRC-32 of IEEE 802.3, as zlib computes it, before the data.
//
//   LE32 checksum | data                       {"id": "crc32"}, newer numcodecs also "location": "start" or "end"

#include <libdeflate.h>

#include "filters/codecs/checksum32.h"

namespace codecfs::filters::codecs::crc32 {

Filter make_filter() {
  return {
      .name = "crc32",
      .codec = "crc32",
      .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        return make_checksum_coder(context, "start",
                                   [](const void* data, size_t size) { return libdeflate_crc32(0, data, size); });
      },
  };
}

}  // namespace codecfs::filters::codecs::crc32
