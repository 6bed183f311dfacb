// szip: HDF5 filter 4. CCSDS 121.0-B extended Rice coding in the framing of NASA's szip library; decoded by libaec.
//
//   LE32 bytes of the data | Rice-coded samples                  parameters [mask, ppb, bpp, pps]
//
// mask: options (8 little-endian, 16 big-endian, 32 differences of neighbours); ppb, pps: pixels (samples) in a block,
// in a scanline; bpp: bits of a pixel. Samples of 32 and 64 bits are stored as byte planes of 8-bit samples. A scanline
// is padded to whole blocks. The codec JSON is netCDF's.
//
// Users give mask and ppb; the others follow from the dtype and the length of a row in pixels. A row is the chunk's
// last dimension in HDF5, and the array's in NCZarr, whose codec JSON has mask and ppb only. pps is at most 128 * ppb
// and 4096.
//
// libaec also has the interface of the szip library, but that one completes a truncated stream with uninitialised
// memory, so it is not used.

#include <libaec.h>

#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "filters/codecs/byte_planes.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::szip {
namespace {

constexpr uint32_t kAllowK13 = 1;
constexpr uint32_t kChip = 2;
constexpr uint32_t kLsb = 8;
constexpr uint32_t kMsb = 16;
constexpr uint32_t kDifferences = 32;
constexpr uint32_t kRaw = 128;

constexpr size_t kHeader = 4;            // bytes
constexpr uint64_t kMaxBlocks = 128;     // in a scanline
constexpr uint64_t kMaxScanline = 4096;  // pixels, unless the row is shorter than a block

struct Settings {
  uint32_t mask = 0;
  uint32_t block = 0;     // samples
  uint32_t bits = 0;      // of a pixel
  uint32_t scanline = 0;  // samples
  bool may_grow = true;   // HDF5's filter gives szip no more room than the data has, beside the header

  [[nodiscard]] bool planes() const { return bits == 32 || bits == 64; }
  [[nodiscard]] uint32_t sample_bits() const { return planes() ? 8 : bits; }
  [[nodiscard]] size_t sample_bytes() const { return sample_bits() > 16 ? 4 : sample_bits() > 8 ? 2 : 1; }
  [[nodiscard]] uint32_t blocks() const { return (scanline + block - 1) / block; }
};

Result<> check_block(uint32_t block) {
  if (block < 2 || block > 32 || block % 2 != 0)
    return fail(EINVAL, "{} pixels per block; must be even and at most 32", block);
  return {};
}

/// Requires complete parameters. The bounds are those of HDF5 and szip; they also bound what libaec allocates.
Result<Settings> read_settings(std::span<const uint32_t> parameters, bool may_grow) {
  const Settings s{parameters[0], parameters[1], parameters[2], parameters[3], may_grow};
  CODECFS_TRY(check_block(s.block));
  if (s.bits == 0 || (s.bits > 32 && s.bits != 64)) return fail(EINVAL, "{} bits per pixel", s.bits);
  if (s.scanline < s.block || s.scanline > 128 * s.block)
    return fail(EINVAL, "{} pixels per scanline; must be from 1 to 128 blocks of {}", s.scanline, s.block);
  return s;
}

Result<> check_new(const FilterStage& stage, uint64_t) {
  constexpr uint32_t kEntropyCoding = 4;
  constexpr uint32_t kNearestNeighbour = 32;
  if (stage.parameters.size() < 2)
    return fail(EINVAL, "needs the option mask (4 or 32) and the pixels per block, not {} parameters",
                stage.parameters.size());
  CODECFS_TRY(at_most(stage, 4, "the option mask, the pixels per block, and two that are computed"));
  const uint32_t method = stage.parameters[0] & (kEntropyCoding | kNearestNeighbour);
  if (stage.parameters[0] > UINT8_MAX || (method != kEntropyCoding && method != kNearestNeighbour))
    return fail(EINVAL,
                "the option mask must be up to 255 with either 4 (entropy coding) or 32 (nearest neighbour), not {}",
                stage.parameters[0]);
  return check_block(stage.parameters[1]);
}

Result<std::vector<uint32_t>> working_parameters(const StageContext& context) {
  const auto& given = context.stage.parameters;
  if (given.size() >= 4) return given;
  if (given.size() < 2)
    return fail(EINVAL, "{} parameters; needs the option mask and the pixels per block", given.size());
  const uint64_t block = given[1];
  CODECFS_TRY(check_block(given[1]));

  const ChunkShape& chunk = context.chunk;
  uint64_t bits = chunk.type.size > 8 ? 0 : chunk.type.size * 8;
  if (bits == 0) return fail(EINVAL, "elements of {} bytes; szip takes 1 to 8", chunk.type.size);
  if (bits > 24) bits = bits > 32 ? 64 : 32;

  const bool zarr = context.stage.codec->is_object();
  const std::vector<uint64_t>& row_of = zarr ? chunk.shape : chunk.chunks;
  if (row_of.empty()) return fail(EINVAL, "szip does not work on scalars");
  const uint64_t row = row_of.back();
  uint64_t scanline = block * kMaxBlocks;
  if (row < block) {
    const uint64_t pixels = chunk.bytes.value_or(0) / chunk.type.size;
    if (pixels < block) return fail(EINVAL, "{} pixels per block, but a chunk has only {}", block, pixels);
    scanline = std::min(scanline, pixels);
  } else if (row <= kMaxScanline) {
    scanline = std::min(scanline, row);
  }
  const uint32_t order = chunk.type.order == ByteOrder::big ? kMsb : kLsb;
  const uint32_t mask = ((given[0] & ~(kChip | kLsb | kMsb)) | kAllowK13 | kRaw) | order;
  return std::vector{mask, given[1], static_cast<uint32_t>(bits), static_cast<uint32_t>(scanline)};
}

aec_stream stream_of(Bytes in, const Settings& s, MutableBytes out) {
  aec_stream stream{};
  stream.next_in = reinterpret_cast<const unsigned char*>(in.data());
  stream.avail_in = in.size();
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = out.size();
  stream.bits_per_sample = s.sample_bits();
  stream.block_size = s.block;
  stream.rsi = s.blocks();
  stream.flags = ((s.mask & kMsb) != 0 ? AEC_DATA_MSB : 0) | ((s.mask & kDifferences) != 0 ? AEC_DATA_PREPROCESS : 0);
  return stream;
}

Result<> rice_decode(Bytes in, const Settings& s, MutableBytes out) {
  aec_stream stream = stream_of(in, s, out);
  switch (aec_buffer_decode(&stream)) {
    case AEC_OK: break;
    case AEC_MEM_ERROR: return fail(ENOMEM, "no memory for the decoder");
    case AEC_CONF_ERROR: return fail(EIO, "libaec refuses these parameters");
    default: return fail(EIO, "the compressed data is damaged");
  }
  if (stream.total_out != out.size())
    return fail(EIO, "the compressed data is truncated: {} of {} bytes", stream.total_out, out.size());
  return {};
}

Result<Buffer> decode(const Buffer& in, const Settings& s, const SizeBound& bound) {
  if (in.size() < 4) return fail(EIO, "{} bytes have no room for the size", in.size());
  const size_t size = load_le<uint32_t>(in.data());
  const Bytes stream = in.bytes().subspan(4);
  CODECFS_TRY(check_told_size(size, in.size(), bound));
  const size_t sample = s.sample_bytes();
  const size_t pixel = s.planes() ? s.bits / 8 : sample;
  if (size % pixel != 0) return fail(EIO, "{} bytes are not a whole number of pixels of {} bytes", size, pixel);

  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  if (size == 0) return out;
  const bool padded = s.scanline % s.block != 0;
  if (!padded && !s.planes()) {
    CODECFS_TRY(rice_decode(stream, s, out.mutable_bytes()));
    return out;
  }

  // The last scanline may be short; the others have padding after their samples.
  const size_t line = s.scanline * sample;
  const size_t padded_line = size_t{s.blocks()} * s.block * sample;
  const size_t whole_lines = (size - 1) / line;
  CODECFS_ASSIGN(Buffer samples, Buffer::allocate(whole_lines * padded_line + (size - whole_lines * line)));
  CODECFS_TRY(rice_decode(stream, s, samples.mutable_bytes()));
  if (padded) {
    for (size_t i = 1; i <= whole_lines; ++i)
      std::memmove(samples.data() + i * line, samples.data() + i * padded_line, std::min(line, size - i * line));
    samples.truncate(size);
  }
  if (!s.planes()) return samples;
  join_byte_planes(samples.data(), out.data(), size / pixel, pixel);
  return out;
}

/// Pads each scanline of `s.scanline` samples to whole blocks, as libaec does: with the last sample if differences are
/// stored (they are then 0), else with zeros.
Result<Buffer> pad_scanlines(Bytes samples, const Settings& s) {
  const size_t sample = s.sample_bytes();
  const size_t line = s.scanline * sample;
  const size_t padded_line = size_t{s.blocks()} * s.block * sample;
  const size_t lines = (samples.size() + line - 1) / line;
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(lines * padded_line));
  for (size_t i = 0; i < lines; ++i) {
    const Bytes from = samples.subspan(i * line, std::min(line, samples.size() - i * line));
    std::byte* const to = out.data() + i * padded_line;
    std::memcpy(to, from.data(), from.size());
    std::memset(to + from.size(), 0, padded_line - from.size());
    if ((s.mask & kDifferences) == 0) continue;
    for (size_t at = from.size(); at < padded_line; at += sample)
      std::memcpy(to + at, from.last(sample).data(), sample);
  }
  return out;
}

/// Includes the padding, which is encoded with the samples.
SizeBound encoded_size(const SizeBound& decoded, const Settings& s) {
  const uint64_t padded_line = uint64_t{s.blocks()} * s.block;
  const uint64_t lines = decoded.max / (s.scanline * s.sample_bytes()) + 1;
  return compressed_size({.max = std::max(decoded.max, lines * padded_line * s.sample_bytes()), .exact = std::nullopt});
}

Result<Buffer> encode(Bytes in, const Settings& s) {
  if (in.size() > UINT32_MAX) return fail(EINVAL, "{} bytes are more than szip's header can store", in.size());
  const size_t pixel = s.planes() ? s.bits / 8 : s.sample_bytes();
  if (in.size() % pixel != 0)
    return fail(EINVAL, "{} bytes are not a whole number of pixels of {} bytes", in.size(), pixel);
  Bytes samples = in;
  Buffer planes;
  if (s.planes()) {
    CODECFS_ASSIGN(planes, Buffer::allocate(in.size()));
    split_byte_planes(in.data(), planes.data(), in.size() / pixel, pixel);
    samples = planes.bytes();
  }
  Buffer padded;
  const bool whole = s.scanline % s.block == 0 && samples.size() % (s.scanline * s.sample_bytes()) == 0;
  if (!whole) {
    CODECFS_ASSIGN(padded, pad_scanlines(samples, s));
    samples = padded.bytes();
  }
  const uint64_t most = s.may_grow ? encoded_size(SizeBound::exactly(in.size()), s).max : kHeader + in.size();
  return encode_whole(most, [&](MutableBytes room) -> Result<size_t> {
    store_le(room.data(), static_cast<uint32_t>(in.size()));
    if (in.empty()) return kHeader;
    aec_stream stream = stream_of(samples, s, room.subspan(kHeader));
    stream.flags |= AEC_NOT_ENFORCE;  // the standard allows blocks of 8, 16, 32 and 64 only; szip allows all even sizes
    switch (aec_buffer_encode(&stream)) {
      case AEC_OK: return kHeader + stream.total_out;
      case AEC_MEM_ERROR: return fail(ENOMEM, "no memory for the encoder");
      case AEC_CONF_ERROR: return fail(EINVAL, "libaec refuses these parameters");
      default: return fail(EINVAL, "{} bytes do not compress", in.size());
    }
  });
}

}  // namespace

Filter make_filter() {
  return {
      .id = 4,
      .name = "szip",
      .codec = "szip",
      .library = "libaec",
      .parameters_of = [](const Json& codec, uint64_t) -> Result<std::vector<uint32_t>> {
        CODECFS_ASSIGN(const int64_t mask, integer_field(codec, "mask", 0, 0, UINT32_MAX));
        CODECFS_ASSIGN(const int64_t block, integer_field(codec, "pixels-per-block", 0, 0, UINT32_MAX));
        return std::vector{static_cast<uint32_t>(mask), static_cast<uint32_t>(block)};
      },
      .codec_of = [](std::span<const uint32_t> parameters) -> Json {
        return {{"id", "szip"},
                {"mask", parameters.empty() ? 0 : parameters[0]},
                {"pixels-per-block", parameters.size() < 2 ? 0 : parameters[1]}};
      },
      .working_parameters = working_parameters,
      .check_new = check_new,
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const std::vector<uint32_t> parameters, working_parameters(context));
        CODECFS_ASSIGN(const Settings settings, read_settings(parameters, !context.stage.optional));
        return Coder{.decode = [settings](const Buffer& in, const SizeBound& out) { return decode(in, settings, out); },
                     .encode = [settings](Bytes in) { return encode(in, settings); },
                     .encoded = [settings](const SizeBound& decoded) { return encoded_size(decoded, settings); }};
      },
  };
}

}  // namespace codecfs::filters::codecs::szip
