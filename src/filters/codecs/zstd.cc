// zstd: HDF5 filter 32015, numcodecs "zstd". RFC 8878 frames: one or several, with or without content size and
// checksum; skippable frames are allowed.
//
//   28 b5 2f fd | header | blocks | checksum          parameters [level, as a signed number]

#include <zstd.h>

#include "filters/codecs/zstd_frames.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::zstd {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  CODECFS_ASSIGN(const std::optional<uint64_t> told, zstd_content_size(in.bytes()));
  if (told && *told > bound.max) return too_large(bound);
  const SizeBound limit =
      told && !bound.exact ? SizeBound{.max = *told, .exact = std::nullopt, .is_usual = bound.is_usual} : bound;
  return decode_whole(limit, in.size(), [&](MutableBytes room) { return zstd_decode(in.bytes(), room); });
}

}  // namespace

Filter make_filter() {
  return {
      .id = 32015,
      .name = "zstd",
      .aliases = {"zstandard"},
      .codec = "zstd",
      .library = zstd_library(),
      .parameters_of = [](const Json& codec, uint64_t) -> Result<std::vector<uint32_t>> {
        CODECFS_ASSIGN(const int64_t level, integer_field(codec, "level", 0, INT32_MIN, INT32_MAX));
        return std::vector{static_cast<uint32_t>(level)};
      },
      .codec_of = [](std::span<const uint32_t> parameters) -> Json {
        return {{"id", "zstd"}, {"level", parameters.empty() ? 3 : static_cast<int32_t>(parameters[0])}};
      },
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(at_most(stage, 1, "the level"));
        if (stage.codec->is_object()) CODECFS_TRY(integer_field(stage.codec, "checksum", 0, 0, 1));
        return in_range(stage, 0, "the level", ZSTD_minCLevel(), ZSTD_maxCLevel());
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        const auto& parameters = context.stage.parameters;
        const int level = parameters.empty() ? ZSTD_CLEVEL_DEFAULT : static_cast<int32_t>(parameters[0]);
        return Coder{.decode = decode,
                     .encode = [level, codec = context.stage.codec](Bytes in) -> Result<Buffer> {
                       CODECFS_ASSIGN(const int64_t checksum, integer_field(codec, "checksum", 0, 0, 1));
                       return zstd_encode(in, level, checksum != 0);
                     },
                     .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::zstd
