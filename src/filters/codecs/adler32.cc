// adler32: numcodecs "adler32". Adler-32 of RFC 1950, before the data.
//
//   LE32 checksum | data                     {"id": "adler32"}, newer numcodecs also "location": "start" or "end"

#include <libdeflate.h>

#include "filters/codecs/checksum32.h"

namespace codecfs::filters::codecs::adler32 {

Filter make_filter() {
  return {
      .name = "adler32",
      .codec = "adler32",
      .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        return make_checksum_coder(context, "start",
                                   [](const void* data, size_t size) { return libdeflate_adler32(1, data, size); });
      },
  };
}

}  // namespace codecfs::filters::codecs::adler32
