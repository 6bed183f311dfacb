// lzf: HDF5 filter 32000 (h5py). Bare LibLZF data without a header; no numcodecs codec.
//
//   LZF tokens                               parameters [filter revision, LZF version, bytes of a chunk]

#include <liblzf/lzf.h>

#include <cerrno>
#include <climits>

#include "filters/filter.h"
#include "filters/output_buffer.h"

namespace codecfs::filters::codecs {
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
    return fail(EIO, "the compressed data is damaged or cut short");
  });
}

}  // namespace

Filter lzf() {
  return {
      .id = 32000,
      .name = "lzf",
      .library = fmt::format("liblzf {}.{}", LZF_VERSION >> 8, LZF_VERSION & 0xff),
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = decode, .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs
