// blosc: HDF5 filter 32001, numcodecs "blosc". Blosc 1.x buffers; they tell everything that decoding needs. Bytes
// behind the buffer are ignored, as both do.
//
//   version | codec version | flags | bytes of an element | LE32 data bytes | LE32 block bytes | LE32 buffer bytes |
//   blocks
//
// parameters, as HDF5 files have them    [2, 2, bytes of an element, bytes of a chunk, level, shuffle, compressor]
// parameters, as netCDF sets them        [0, 0, 0, block bytes, level, shuffle, compressor]

#include <blosc.h>

#include <array>

#include "base/endian.h"
#include "filters/codec_fields.h"
#include "filters/filter.h"
#include "filters/output_buffer.h"

namespace codecfs::filters::codecs {
namespace {

constexpr std::array kCompressors = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};  // by their code

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) return fail(EIO, "{} bytes have no room for the header", in.size());
  if (const auto version = static_cast<unsigned>(in.data()[0]); version == 0 || version > BLOSC_VERSION_FORMAT)
    return fail(EIO, "format version {} is not of Blosc 1", version);
  const size_t stored = load_le<uint32_t>(in.data() + 12);
  if (stored > in.size()) return fail(EIO, "the compressed data is cut short: {} of {} bytes", in.size(), stored);
  size_t size = 0;
  if (blosc_cbuffer_validate(in.data(), stored, &size) != 0) return fail(EIO, "the header is damaged");
  CODECFS_TRY(check_told_size(size, in.size(), bound));
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  if (size == 0) return out;
  const int result = blosc_decompress_ctx(in.data(), out.data(), size, 1);
  if (result == -5)
    return fail(EIO, "compressor {} is not in this Blosc library", static_cast<unsigned>(in.data()[2]) >> 5);
  if (result < 0 || static_cast<size_t>(result) != size) return fail(EIO, "the compressed data is damaged");
  return out;
}

Result<std::vector<uint32_t>> parameters_of(const Json& codec, uint64_t) {
  CODECFS_ASSIGN(const std::string compressor, text_field(codec, "cname", "lz4"));
  CODECFS_ASSIGN(const int64_t level, integer_field(codec, "clevel", 5, 0, 9));
  CODECFS_ASSIGN(const int64_t shuffle, integer_field(codec, "shuffle", 1, -1, 2));
  CODECFS_ASSIGN(const int64_t block, integer_field(codec, "blocksize", 0, 0, INT32_MAX));
  for (size_t code = 0; code < kCompressors.size(); ++code) {
    if (compressor == kCompressors[code])
      return std::vector{0U,
                         0U,
                         0U,
                         static_cast<uint32_t>(block),
                         static_cast<uint32_t>(level),
                         static_cast<uint32_t>(shuffle),
                         static_cast<uint32_t>(code)};
  }
  return fail(EINVAL, "\"cname\": \"{}\" is not a compressor of Blosc", compressor);
}

Json codec_of(std::span<const uint32_t> parameters) {
  const auto at = [&](size_t i, uint32_t fallback) { return i < parameters.size() ? parameters[i] : fallback; };
  const size_t code = at(6, 0);
  const bool has_block_size = at(2, 0) == 0;  // else the place holds the chunk's size
  return {{"id", "blosc"},
          {"cname", code < kCompressors.size() ? kCompressors[code] : "blosclz"},
          {"clevel", at(4, 5)},
          {"shuffle", static_cast<int32_t>(at(5, 1))},
          {"blocksize", has_block_size ? at(3, 0) : 0}};
}

}  // namespace

Filter blosc() {
  return {
      .id = 32001,
      .name = "blosc",
      .codec = "blosc",
      .library = std::string("blosc ") + blosc_get_version_string(),
      .parameters_of = parameters_of,
      .codec_of = codec_of,
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = decode, .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs
