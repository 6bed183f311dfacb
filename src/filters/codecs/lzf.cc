// lzf: HDF5 filter 32000 (h5py). Bare LibLZF data without a header; there is no numcodecs codec.
//
//   LZF tokens                               parameters [filter revision, LZF version, bytes of a chunk]
//
// Users give no parameters: HDF5's set_local fills them in. Data that does not become smaller cannot be encoded.

// Upstream's header is for C only.
extern "C" {
#include <lzf.h>
}

#include <cerrno>
#include <climits>

#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"

namespace codecfs::filters::codecs::lzf {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  if (in.size() > UINT_MAX) return fail(EIO, "{} bytes are more than LZF can have", in.size());
  return decode_whole(bound, in.size(), [&](MutableBytes room) -> Result<std::optional<size_t>> {
    if (in.empty() || room.empty()) return fail(EIO, "the compressed data is empty");
    const auto room_size = static_cast<unsigned>(std::min<size_t>(room.size(), UINT_MAX));
    errno = 0;
    const unsigned written = lzf_decompress(in.data(), static_cast<unsigned>(in.size()), room.data(), room_size);
    if (written != 0) return written;
    if (errno == E2BIG) return std::nullopt;
    return fail(EIO, "the compressed data is damaged or truncated");
  });
}

Result<Buffer> encode(Bytes in) {
  if (in.size() > UINT_MAX) return fail(EINVAL, "{} bytes are more than LZF can have", in.size());
  constexpr size_t kSmallest = 4;  // smaller input cannot shrink, and LZF reads past the end of one byte
  if (in.size() < kSmallest) return fail(EINVAL, "{} bytes are too few for LZF", in.size());
  return encode_whole(in.size(), [&](MutableBytes room) -> Result<size_t> {
    const auto size = static_cast<unsigned>(in.size());
    const unsigned written = lzf_compress(in.data(), size, room.data(), size);
    if (written == 0) return fail(EINVAL, "the data does not become smaller, and LZF cannot store it uncompressed");
    return written;
  });
}

Result<std::vector<uint32_t>> working_parameters(const StageContext& context) {
  constexpr uint32_t kRevision = 4;        // of h5py's filter
  constexpr uint32_t kLzfVersion = 0x105;  // of LibLZF in h5py
  const auto& given = context.stage.parameters;
  if (given.size() >= 3 && given[0] != 0 && given[1] != 0 && given[2] != 0) return given;
  if (context.chunk.bytes.value_or(0) > UINT_MAX)
    return fail(EINVAL, "chunks of {} bytes are more than LZF can have", *context.chunk.bytes);
  const auto at = [&](size_t i) { return i < given.size() ? given[i] : 0; };
  return std::vector{at(0) == 0 ? kRevision : at(0), at(1) == 0 ? kLzfVersion : at(1),
                     static_cast<uint32_t>(context.chunk.bytes.value_or(0))};
}

}  // namespace

Filter make_filter() {
  return {
      .id = 32000,
      .name = "lzf",
      .library = fmt::format("liblzf {}.{}", LZF_VERSION >> 8, LZF_VERSION & 0xff),
      .working_parameters = working_parameters,
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        if (stage.parameters.empty() || stage.parameters.size() == 3) return {};
        return fail(EINVAL, "takes no parameters, or the three that it stores, not {}", stage.parameters.size());
      },
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = decode, .encode = encode, .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::lzf
