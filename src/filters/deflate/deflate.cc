// deflate: HDF5 filter 1, numcodecs "zlib". RFC 1950. Bytes after the stream are ignored, as programs that use zlib do.
//
//   78 xx | deflate blocks | Adler-32 of the data, big-endian        parameters [level 0..9]

#include "filters/codecs/inflate.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "filters/deflate/deflate_stream.h"
#include "model/json.h"

namespace codecfs::filters::codecs::deflate {

Filter make_filter() {
  return {
      .id = 1,
      .name = "deflate",
      .aliases = {"zlib", "gzip"},
      .codec = "zlib",
      .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
      .parameters_of = [](const Json& codec, uint64_t) -> Result<std::vector<uint32_t>> {
        CODECFS_ASSIGN(const int64_t level, integer_field(codec, "level", 1, -1, 9));
        return std::vector{static_cast<uint32_t>(level)};
      },
      .codec_of = [](std::span<const uint32_t> parameters) -> Json {
        const auto level = parameters.empty() ? 6 : static_cast<int32_t>(parameters[0]);
        return {{"id", "zlib"}, {"level", level}};
      },
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(at_most(stage, 1, "the level"));
        if (stage.parameters.empty() && stage.codec.is_null())  // HDF5 and netCDF have no default
          return fail(EINVAL, "needs one parameter, the level from 0 to 9");
        return in_range(stage, 0, "the level", stage.codec->is_object() ? -1 : 0, 9);
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        const auto& parameters = context.stage.parameters;
        const int64_t level = parameters.empty() ? -1 : static_cast<int32_t>(parameters[0]);
        return Coder{
            .decode = [](const Buffer& in, const SizeBound& out) { return inflate(in.bytes(), Wrapping::zlib, out); },
            .encode = [level](Bytes in) { return deflate_whole(in, Wrapping::zlib, level); },
            .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::deflate
