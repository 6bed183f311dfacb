// gzip: numcodecs "gzip". RFC 1952: one or several members, zeros may follow the last. Not HDF5's "gzip", which is
// deflate in the zlib wrapping.
//
//   1f 8b 08 flags mtime[4] xfl os | ... | deflate blocks | CRC-32 LE | size LE            {"id": "gzip", "level": 1}

#include "filters/codecs/inflate.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "filters/deflate/deflate_stream.h"

namespace codecfs::filters::codecs::gzip {

Filter make_filter() {
  return {
      .name = "numcodecs.gzip",
      .codec = "gzip",
      .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(integer_field(stage.codec, "level", 1, -1, 9));
        return {};
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        return Coder{
            .decode = [](const Buffer& in, const SizeBound& out) { return inflate(in.bytes(), Wrapping::gzip, out); },
            .encode = [codec = context.stage.codec](Bytes in) -> Result<Buffer> {
              CODECFS_ASSIGN(const int64_t level, integer_field(codec, "level", 1, -1, 9));
              return deflate_whole(in, Wrapping::gzip, level);
            },
            .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::gzip
