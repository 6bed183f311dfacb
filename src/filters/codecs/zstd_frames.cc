// Each thread keeps one decompression context (about 150 KiB) and one compression context, which grows with the level
// and the chunk: about 1 MiB at level 3, tens of MiB at the highest. The library shrinks it if it stays too large for
// long.

#include "filters/codecs/zstd_frames.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <memory>

#include "base/endian.h"
#include "filters/core/output_buffer.h"

namespace codecfs::filters::codecs {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr uint32_t kSkippable = 0x184D2A50;  // to 0x184D2A5F

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

Result<std::optional<uint64_t>> zstd_content_size(Bytes in) {
  std::optional<uint64_t> total = 0;
  if (in.empty()) return fail(EIO, "the compressed data is empty");
  while (!in.empty()) {
    const uint32_t magic = in.size() < 4 ? 0 : load_le<uint32_t>(in.data());
    const bool skippable = (magic & ~uint32_t{15}) == kSkippable;
    if (magic != kMagic && !skippable) return fail(EIO, "this is not a Zstandard frame");
    const size_t frame = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (ZSTD_isError(frame) != 0) return fail(EIO, "the compressed data is damaged or truncated");
    if (!skippable) {
      const unsigned long long size = ZSTD_getFrameContentSize(in.data(), in.size());
      if (size == ZSTD_CONTENTSIZE_ERROR) return fail(EIO, "a frame's header is damaged");
      if (size == ZSTD_CONTENTSIZE_UNKNOWN || !total || __builtin_add_overflow(*total, size, &*total)) total.reset();
    }
    in = in.subspan(frame);
  }
  return total;
}

Result<std::optional<size_t>> zstd_decode(Bytes in, MutableBytes room) {
  thread_local std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) context.reset(ZSTD_createDCtx());
  if (context == nullptr) return fail(ENOMEM, "no memory for a decompressor");
  const size_t written = ZSTD_decompressDCtx(context.get(), room.data(), room.size(), in.data(), in.size());
  if (ZSTD_isError(written) == 0) return written;
  switch (ZSTD_getErrorCode(written)) {
    case ZSTD_error_dstSize_tooSmall: return std::nullopt;
    case ZSTD_error_checksum_wrong: return fail(EIO, "the checksum of a frame is wrong: the data is damaged");
    case ZSTD_error_memory_allocation: return fail(ENOMEM, "no memory for a decompressor");
    default: return fail(EIO, "the compressed data is damaged ({})", ZSTD_getErrorName(written));
  }
}

size_t zstd_bound(size_t size) { return ZSTD_compressBound(size); }

Result<size_t> zstd_encode_to(Bytes in, int level, bool checksum, MutableBytes room) {
  thread_local std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (context == nullptr) context.reset(ZSTD_createCCtx());
  if (context == nullptr) return fail(ENOMEM, "no memory for a compressor");
  ZSTD_CCtx_reset(context.get(), ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, checksum ? 1 : 0);
  const size_t written = ZSTD_compress2(context.get(), room.data(), room.size(), in.data(), in.size());
  if (ZSTD_isError(written) == 0) return written;
  if (ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation) return fail(ENOMEM, "no memory for a compressor");
  return fail(EIO, "Zstandard cannot compress {} bytes ({})", in.size(), ZSTD_getErrorName(written));
}

Result<Buffer> zstd_encode(Bytes in, int level, bool checksum) {
  const size_t most = zstd_bound(in.size());
  if (ZSTD_isError(most) != 0) return fail(EINVAL, "{} bytes are more than Zstandard can compress", in.size());
  return encode_whole(most, [&](MutableBytes room) { return zstd_encode_to(in, level, checksum, room); });
}

std::string zstd_library() { return std::string("zstd ") + ZSTD_versionString(); }

}  // namespace codecfs::filters::codecs
