// gzip: numcodecs "gzip". RFC 1952: one or several members, zeros may follow the last. Not HDF5's "gzip", which is
// deflate in the zlib wrapping.
//
//   1f 8b 08 flags mtime[4] xfl os | ... | deflate blocks | CRC-32 LE | size LE            {"id": "gzip", "level": 1}

#include "filters/codecs/inflate.h"
#include "filters/filter.h"

namespace codecfs::filters::codecs {

Filter gzip() {
  return {
      .name = "numcodecs.gzip",
      .codec = "gzip",
      .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{
            .decode = [](const Buffer& in, const SizeBound& out) { return inflate(in.bytes(), Wrapping::gzip, out); },
            .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs
