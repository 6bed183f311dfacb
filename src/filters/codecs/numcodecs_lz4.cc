// numcodecs "lz4": one LZ4 block after its size. HDF5's lz4 filter (lz4.cc) is a different format, so this has no HDF5
// id.
//
//   LE32 data bytes | LZ4 block                                      {"id": "lz4", "acceleration": 1}

#include <lz4.h>

#include <climits>

#include "base/endian.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"

namespace codecfs::filters::codecs::numcodecs_lz4 {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.size() < 4 || in.size() > INT_MAX) return fail(EIO, "{} bytes cannot be LZ4 data", in.size());
  const size_t size = load_le<uint32_t>(in.data());
  if (size > INT_MAX) return fail(EIO, "its header declares {} bytes, more than LZ4 supports", size);
  CODECFS_TRY(check_told_size(size, in.size(), bound));
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  const int written =
      LZ4_decompress_safe(reinterpret_cast<const char*>(in.data() + 4), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(in.size() - 4), static_cast<int>(size));
  if (written < 0 || static_cast<size_t>(written) != size)
    return fail(EIO, "the compressed data is damaged or truncated");
  return out;
}

Result<Buffer> encode(Bytes in, int acceleration) {
  if (in.size() > LZ4_MAX_INPUT_SIZE)
    return fail(EINVAL, "{} bytes; LZ4 takes at most {}", in.size(), LZ4_MAX_INPUT_SIZE);
  const auto size = static_cast<int>(in.size());
  return encode_whole(4 + static_cast<size_t>(LZ4_compressBound(size)), [&](MutableBytes room) -> Result<size_t> {
    store_le(room.data(), static_cast<uint32_t>(size));
    const int stored =
        LZ4_compress_fast(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(room.data() + 4), size,
                          static_cast<int>(room.size() - 4), acceleration);
    if (stored <= 0) return fail(EIO, "LZ4 cannot compress {} bytes", size);
    return 4 + static_cast<size_t>(stored);
  });
}

}  // namespace

Filter make_filter() {
  return {
      .name = "numcodecs.lz4",
      .codec = "lz4",
      .library = std::string("lz4 ") + LZ4_versionString(),
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(integer_field(stage.codec, "acceleration", 1, INT_MIN, INT_MAX));
        return {};
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        return Coder{.decode = decode,
                     .encode = [codec = context.stage.codec](Bytes in) -> Result<Buffer> {
                       // LZ4 itself replaces values below 1 by 1.
                       CODECFS_ASSIGN(const int64_t acceleration,
                                      integer_field(codec, "acceleration", 1, INT_MIN, INT_MAX));
                       return encode(in, static_cast<int>(acceleration));
                     },
                     .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::numcodecs_lz4
