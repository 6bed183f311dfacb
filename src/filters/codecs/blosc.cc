// blosc: HDF5 filter 32001, numcodecs "blosc". Blosc 1.x buffers, whose headers have everything that decoding needs.
// Bytes after the buffer are ignored, as both implementations do.
//
//   version | codec version | flags | bytes of an element | LE32 data bytes | LE32 block bytes | LE32 buffer bytes |
//   blocks
//
// parameters, as HDF5 files have them    [2, 2, bytes of an element, bytes of a chunk, level, shuffle, compressor]
// parameters, as netCDF sets them        [0, 0, 0, block bytes, level, shuffle, compressor]
//
// shuffle: 0 none, 1 bytes, 2 bits, -1 bits for elements of one byte, else bytes (numcodecs). Block size 0 lets Blosc
// choose. Missing parameters default as in HDF5's filter: level 5, shuffle 1, BloscLZ. Incompressible data is copied
// into the buffer and grows by 16 bytes.

#include <blosc.h>

#include <algorithm>
#include <array>

#include "base/endian.h"
#include "filters/codecs/blosc_blocks.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::blosc {
namespace {

constexpr std::array kCompressors = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};  // indexed by their code

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) return fail(EIO, "{} bytes have no room for the header", in.size());
  if (const auto version = static_cast<unsigned>(in.data()[0]); version == 0 || version > BLOSC_VERSION_FORMAT)
    return fail(EIO, "format version {} is not of Blosc 1", version);
  const size_t stored = load_le<uint32_t>(in.data() + 12);
  if (stored > in.size()) return fail(EIO, "the compressed data is truncated: {} of {} bytes", in.size(), stored);
  size_t size = 0;
  if (blosc_cbuffer_validate(in.data(), stored, &size) != 0) return fail(EIO, "the header is damaged");
  CODECFS_TRY(check_told_size(size, in.size(), bound));
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  if (size == 0) return out;
  CODECFS_ASSIGN(const bool is_decoded, decode_blosc_blocks(in.bytes().first(stored), out.mutable_bytes()));
  if (is_decoded) return out;
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
  const bool has_block_size = at(2, 0) == 0;  // else this parameter is the chunk's size
  return {{"id", "blosc"},
          {"cname", code < kCompressors.size() ? kCompressors[code] : "blosclz"},
          {"clevel", at(4, 5)},
          {"shuffle", static_cast<int32_t>(at(5, 1))},
          {"blocksize", has_block_size ? at(3, 0) : 0}};
}

Result<> check_new(const FilterStage& stage, uint64_t) {
  CODECFS_TRY(at_most(stage, 7, "four that are computed, the level, the shuffle and the compressor"));
  CODECFS_TRY(in_range(stage, 4, "the level", 0, 9));
  CODECFS_TRY(in_range(stage, 5, "the shuffle", stage.codec->is_object() ? -1 : 0, 2));
  CODECFS_TRY(in_range(stage, 6, "the compressor", 0, kCompressors.size() - 1));
  const char* const name = kCompressors.at(stage.parameters.size() > 6 ? stage.parameters[6] : 0);
  if (blosc_compname_to_compcode(name) < 0) return fail(EINVAL, "compressor {} is not in this Blosc library", name);
  return {};
}

struct Settings {
  size_t element = 1;  // bytes
  size_t block = 0;    // bytes, 0 for Blosc's choice
  int level = 5;
  int shuffle = 1;
  uint32_t compressor = 0;
  bool may_grow = true;  // HDF5's filter gives Blosc no more room than the data has
};

Settings read_settings(const StageContext& context) {
  const auto& given = context.stage.parameters;
  const auto at = [&](size_t i, uint32_t fallback) { return i < given.size() ? given[i] : fallback; };
  Settings settings;
  settings.element = at(2, 0) != 0 ? at(2, 0) : context.chunk.type.size;
  if (settings.element == 0 || settings.element > BLOSC_MAX_TYPESIZE) settings.element = 1;
  settings.block = at(2, 0) == 0 ? at(3, 0) : 0;
  settings.level = static_cast<int>(at(4, 5));
  settings.shuffle = static_cast<int>(at(5, 1));
  settings.compressor = at(6, 0);
  settings.may_grow = !context.stage.optional;
  return settings;
}

/// Blosc's error codes have no text, so check the settings first.
Result<Buffer> encode(Bytes in, const Settings& s) {
  if (in.size() > BLOSC_MAX_BUFFERSIZE)
    return fail(EINVAL, "{} bytes; Blosc takes at most {}", in.size(), BLOSC_MAX_BUFFERSIZE);
  if (s.level < 0 || s.level > 9) return fail(EINVAL, "level {} is not between 0 and 9", s.level);
  if (s.shuffle < -1 || s.shuffle > 2) return fail(EINVAL, "shuffle {} is not between -1 and 2", s.shuffle);
  if (s.compressor >= kCompressors.size()) return fail(EINVAL, "compressor {} is not known", s.compressor);
  const char* const name = kCompressors.at(s.compressor);
  if (blosc_compname_to_compcode(name) < 0) return fail(ENOTSUP, "compressor {} is not in this Blosc library", name);
  const int automatic = s.element == 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
  const int shuffle = s.shuffle == -1 ? automatic : s.shuffle;
  return encode_whole(in.size() + (s.may_grow ? BLOSC_MAX_OVERHEAD : 0), [&](MutableBytes room) -> Result<size_t> {
    const int stored = blosc_compress_ctx(s.level, shuffle, s.element, in.size(), in.data(), room.data(), room.size(),
                                          name, s.block, 1);
    if (stored == 0 && !s.may_grow) return fail(EINVAL, "{} bytes do not become smaller", in.size());
    if (stored <= 0) return fail(EIO, "Blosc cannot compress {} bytes ({})", in.size(), stored);
    return static_cast<size_t>(stored);
  });
}

Result<std::vector<uint32_t>> working_parameters(const StageContext& context) {
  const auto& given = context.stage.parameters;
  if (given.size() >= 7 && given[2] != 0) return given;
  constexpr uint32_t kFilterRevision = 2;
  const Settings s = read_settings(context);
  const uint64_t bytes = context.chunk.bytes.value_or(0);
  if (bytes > BLOSC_MAX_BUFFERSIZE)
    return fail(EINVAL, "chunks of {} bytes; Blosc takes at most {}", bytes, BLOSC_MAX_BUFFERSIZE);
  return std::vector{kFilterRevision,
                     uint32_t{BLOSC_VERSION_FORMAT},
                     static_cast<uint32_t>(s.element),
                     static_cast<uint32_t>(bytes),
                     static_cast<uint32_t>(s.level),
                     static_cast<uint32_t>(s.shuffle),
                     s.compressor};
}

}  // namespace

Filter make_filter() {
  return {
      .id = 32001,
      .name = "blosc",
      .codec = "blosc",
      .library = std::string("blosc ") + blosc_get_version_string(),
      .parameters_of = parameters_of,
      .codec_of = codec_of,
      .working_parameters = working_parameters,
      .check_new = check_new,
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        // Use the given parameters: the working parameters have no block size.
        return Coder{
            .decode = decode,
            .encode = [given = read_settings(context), codec = context.stage.codec](Bytes in) -> Result<Buffer> {
              Settings settings = given;
              // numcodecs writes "typesize" since 0.16.
              CODECFS_ASSIGN(const int64_t element, integer_field(codec, "typesize", 0, 0, BLOSC_MAX_TYPESIZE));
              if (element != 0) settings.element = static_cast<size_t>(element);
              return encode(in, settings);
            },
            .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::blosc
