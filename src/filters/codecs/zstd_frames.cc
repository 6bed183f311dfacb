// Each thread keeps one decompression context (about 150 KiB).

#include "filters/codecs/zstd_frames.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <memory>

#include "base/endian.h"

namespace codecfs::filters::codecs {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr uint32_t kSkippable = 0x184D2A50;  // to 0x184D2A5F

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

Result<std::optional<uint64_t>> zstd_content_size(Bytes in) {
  std::optional<uint64_t> total = 0;
  if (in.empty()) return fail(EIO, "the compressed data is empty");
  while (!in.empty()) {
    const uint32_t magic = in.size() < 4 ? 0 : load_le<uint32_t>(in.data());
    const bool skippable = (magic & ~uint32_t{15}) == kSkippable;
    if (magic != kMagic && !skippable) return fail(EIO, "this is no Zstandard frame");
    const size_t frame = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (ZSTD_isError(frame) != 0) return fail(EIO, "the compressed data is cut short or damaged");
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

std::string zstd_library() { return std::string("zstd ") + ZSTD_versionString(); }

}  // namespace codecfs::filters::codecs
