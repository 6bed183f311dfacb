// szip: HDF5 filter 4. CCSDS 121.0-B extended Rice coding, as NASA's szip library frames it; decoded by libaec.
//
//   LE32 bytes of the data | Rice-coded samples                  parameters [mask, ppb, bpp, pps]
//
// mask: options (8 little-endian, 16 big-endian, 32 differences of neighbours); ppb, pps: pixels (samples) in a block,
// in a scanline; bpp: bits of one. Samples of 32 and 64 bits are stored as byte planes of 8-bit samples. A scanline
// that is no whole number of blocks was padded to one. The codec JSON is netCDF's; what it leaves out (bpp, pps) HDF5
// stores.
//
// libaec has the szip library's interface too, but that one fills up a stream which ends early with whatever is in
// memory.

#include <libaec.h>

#include <cstring>

#include "base/endian.h"
#include "filters/byte_planes.h"
#include "filters/codec_fields.h"
#include "filters/filter.h"
#include "filters/output_buffer.h"

namespace codecfs::filters::codecs {
namespace {

constexpr uint32_t kMsb = 16;
constexpr uint32_t kDifferences = 32;

struct Settings {
  uint32_t mask = 0;
  uint32_t block = 0;     // samples
  uint32_t bits = 0;      // of a pixel
  uint32_t scanline = 0;  // samples

  [[nodiscard]] bool planes() const { return bits == 32 || bits == 64; }
  [[nodiscard]] uint32_t sample_bits() const { return planes() ? 8 : bits; }
  [[nodiscard]] size_t sample_bytes() const { return sample_bits() > 16 ? 4 : sample_bits() > 8 ? 2 : 1; }
  [[nodiscard]] uint32_t blocks() const { return (scanline + block - 1) / block; }
};

/// The bounds are HDF5's and szip's own; they also bound what libaec allocates.
Result<Settings> read_settings(std::span<const uint32_t> parameters) {
  if (parameters.size() < 4)
    return fail(EINVAL,
                "{} parameters; needs the option mask, pixels per block, bits per pixel and pixels per scanline",
                parameters.size());
  const Settings s{parameters[0], parameters[1], parameters[2], parameters[3]};
  if (s.block < 2 || s.block > 32 || s.block % 2 != 0)
    return fail(EINVAL, "{} pixels per block; must be even and at most 32", s.block);
  if (s.bits == 0 || (s.bits > 32 && s.bits != 64)) return fail(EINVAL, "{} bits per pixel", s.bits);
  if (s.scanline < s.block || s.scanline > 128 * s.block)
    return fail(EINVAL, "{} pixels per scanline; must be from 1 to 128 blocks of {}", s.scanline, s.block);
  return s;
}

Result<> rice_decode(Bytes in, const Settings& s, MutableBytes out) {
  aec_stream stream{};
  stream.next_in = reinterpret_cast<const unsigned char*>(in.data());
  stream.avail_in = in.size();
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = out.size();
  stream.bits_per_sample = s.sample_bits();
  stream.block_size = s.block;
  stream.rsi = s.blocks();
  stream.flags = ((s.mask & kMsb) != 0 ? AEC_DATA_MSB : 0) | ((s.mask & kDifferences) != 0 ? AEC_DATA_PREPROCESS : 0);
  switch (aec_buffer_decode(&stream)) {
    case AEC_OK: break;
    case AEC_MEM_ERROR: return fail(ENOMEM, "no memory for the decoder");
    case AEC_CONF_ERROR: return fail(EIO, "libaec refuses these parameters");
    default: return fail(EIO, "the compressed data is damaged");
  }
  if (stream.total_out != out.size())
    return fail(EIO, "the compressed data is cut short: {} of {} bytes", stream.total_out, out.size());
  return {};
}

Result<Buffer> decode(const Buffer& in, const Settings& s, const SizeBound& bound) {
  if (in.size() < 4) return fail(EIO, "{} bytes have no room for the size", in.size());
  const size_t size = load_le<uint32_t>(in.data());
  const Bytes stream = in.bytes().subspan(4);
  CODECFS_TRY(check_told_size(size, in.size(), bound));
  const size_t sample = s.sample_bytes();
  const size_t pixel = s.planes() ? s.bits / 8 : sample;
  if (size % pixel != 0) return fail(EIO, "{} bytes are no whole number of pixels of {} bytes", size, pixel);

  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  if (size == 0) return out;
  const bool padded = s.scanline % s.block != 0;
  if (!padded && !s.planes()) {
    CODECFS_TRY(rice_decode(stream, s, out.mutable_bytes()));
    return out;
  }

  // The last scanline may be short; the padding of the others lies between what we want.
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

}  // namespace

Filter szip() {
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
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const Settings settings, read_settings(context.stage.parameters));
        return Coder{.decode = [settings](const Buffer& in, const SizeBound& out) { return decode(in, settings, out); },
                     .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs
