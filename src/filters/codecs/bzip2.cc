// bzip2: HDF5 filter 307, numcodecs "bz2". One or several streams of bzip2 1.x. Trailing bytes that are not a stream
// are ignored, as in Python's bz2 (numcodecs) and the HDF5 filter.
//
//   'B' 'Z' 'h' '1'..'9' | blocks of at most 900 KB | checksum            parameters [level 1..9]

#include <bzlib.h>

#include <algorithm>
#include <climits>

#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::bzip2 {
namespace {

struct Stream {
  bz_stream state{};
  bool open = false;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (open) BZ2_bzDecompressEnd(&state);
  }
};

unsigned clamp(size_t size) { return static_cast<unsigned>(std::min<size_t>(size, UINT_MAX)); }

/// Decodes one stream and removes it from the front of `in`. False if there is none.
Result<bool> decode_stream(Bytes& in, OutputBuffer& out) {
  Stream stream;
  if (BZ2_bzDecompressInit(&stream.state, 0, 0) != BZ_OK) return fail(ENOMEM, "no memory for the decoder");
  stream.open = true;
  for (bool first = true;; first = false) {
    CODECFS_ASSIGN(const MutableBytes room, out.room());
    const unsigned in_size = clamp(in.size());
    const unsigned out_size = clamp(room.size());
    stream.state.next_in = const_cast<char*>(reinterpret_cast<const char*>(in.data()));
    stream.state.avail_in = in_size;
    stream.state.next_out = reinterpret_cast<char*>(room.data());
    stream.state.avail_out = out_size;
    const int result = BZ2_bzDecompress(&stream.state);
    const size_t consumed = in_size - stream.state.avail_in;
    const size_t produced = out_size - stream.state.avail_out;
    CODECFS_TRY(out.wrote(produced));
    if (result == BZ_DATA_ERROR_MAGIC && first) return false;
    in = in.subspan(consumed);
    if (result == BZ_STREAM_END) return true;
    if (result == BZ_MEM_ERROR) return fail(ENOMEM, "no memory for the decoder");
    if (result != BZ_OK) return fail(EIO, "the compressed data is damaged");
    if (consumed == 0 && produced == 0) return fail(EIO, "the compressed data is truncated");
  }
}

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  CODECFS_ASSIGN(OutputBuffer out, OutputBuffer::make(bound, in.size()));
  Bytes rest = in.bytes();
  for (bool first = true; first || (!rest.empty() && out.size() < bound.max); first = false) {
    CODECFS_ASSIGN(const bool decoded, decode_stream(rest, out));
    if (!decoded && first) return fail(EIO, "this is not bzip2 data");
    if (!decoded) break;
  }
  return out.take();
}

/// bzip2 cannot reuse a compressor, so each chunk allocates 1.2 to 7.6 MiB. That is cheap compared with the
/// compression, and only the memory that the data needs is touched.
struct Compressor {
  bz_stream state{};
  bool open = false;
  Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor() {
    if (open) BZ2_bzCompressEnd(&state);
  }
};

Result<size_t> compress(Bytes in, int level, MutableBytes out) {
  Compressor compressor;
  bz_stream& state = compressor.state;
  if (BZ2_bzCompressInit(&state, level, 0, 0) != BZ_OK) return fail(ENOMEM, "no memory for the compressor");
  compressor.open = true;
  size_t written = 0;
  for (;;) {
    const unsigned in_size = clamp(in.size());
    const unsigned out_size = clamp(out.size() - written);
    state.next_in = const_cast<char*>(reinterpret_cast<const char*>(in.data()));
    state.avail_in = in_size;
    state.next_out = reinterpret_cast<char*>(out.data() + written);
    state.avail_out = out_size;
    const int result = BZ2_bzCompress(&state, in_size == in.size() ? BZ_FINISH : BZ_RUN);
    in = in.subspan(in_size - state.avail_in);
    written += out_size - state.avail_out;
    if (result == BZ_STREAM_END) return written;
    if ((result != BZ_RUN_OK && result != BZ_FINISH_OK) || written == out.size())
      return fail(EIO, "bzip2 cannot compress the data ({})", result);
  }
}

Result<Buffer> encode(Bytes in, uint32_t level) {
  if (level < 1 || level > 9) return fail(EINVAL, "level {} is not between 1 and 9", level);
  const size_t most = in.size() + in.size() / 100 + 600;  // from bzip2's manual
  return encode_whole(most, [&](MutableBytes room) { return compress(in, static_cast<int>(level), room); });
}

}  // namespace

Filter make_filter() {
  return {
      .id = 307,
      .name = "bzip2",
      .aliases = {"bz2"},
      .codec = "bz2",
      .library =
          std::string("bzip2 ") + std::string(BZ2_bzlibVersion()).substr(0, std::string(BZ2_bzlibVersion()).find(',')),
      .parameters_of = [](const Json& codec, uint64_t) -> Result<std::vector<uint32_t>> {
        CODECFS_ASSIGN(const int64_t level, integer_field(codec, "level", 1, 1, 9));
        return std::vector{static_cast<uint32_t>(level)};
      },
      .codec_of = [](std::span<const uint32_t> parameters) -> Json {
        return {{"id", "bz2"}, {"level", parameters.empty() ? 9 : parameters[0]}};
      },
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(at_most(stage, 1, "the level"));
        return in_range(stage, 0, "the level", 1, 9);
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        const uint32_t level = context.stage.parameters.empty() ? 9 : context.stage.parameters[0];
        return Coder{
            .decode = decode, .encode = [level](Bytes in) { return encode(in, level); }, .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::bzip2
