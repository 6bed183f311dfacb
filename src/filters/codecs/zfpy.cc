// zfpy of numcodecs: a stream of libzfp with a header that tells shape, type and mode (zfp_stream.h).
//
//   {"id": "zfpy", "mode": 4, "tolerance": 0.01, "rate": -1, "precision": -1, "compression_kwargs": {"tolerance":
//   0.01}}
//
// Modes: 2 fixed rate, 3 fixed precision, 4 fixed accuracy, 5 reversible, which is zarrs' addition.
// "compression_kwargs" repeats a member.

#include <string>
#include <utility>

#include "filters/codecs/number_types.h"
#include "filters/codecs/zfp_stream.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs::zfpy {
namespace {

struct Zfpy {
  ZfpArray array;
  ZfpParameters parameters;
};

Result<ZfpArray> array_of(const ChunkShape& chunk) {
  const auto refuse = [&] {
    return fail(EINVAL, "does not work on elements of dtype {}", print_json(print_dtype(chunk.type)));
  };
  if (!chunk.type_name.empty() || is_foreign_order(chunk.type)) return refuse();
  ZfpArray array{.type = zfp_type_none, .lengths = chunk.chunks};
  const bool is_float = chunk.type.kind == TypeKind::floating;
  if (!is_float && chunk.type.kind != TypeKind::signed_int) return refuse();
  if (chunk.type.size == 4) array.type = is_float ? zfp_type_float : zfp_type_int32;
  if (chunk.type.size == 8) array.type = is_float ? zfp_type_double : zfp_type_int64;
  if (array.type == zfp_type_none) return refuse();
  if (array.lengths.empty()) array.lengths = {1};
  if (array.lengths.size() > 4)
    return fail(EINVAL, "does not work on {} dimensions, only on 1 to 4", array.lengths.size());
  return array;
}

Result<ZfpParameters> parse_mode(const Json& codec, const ZfpArray& array) {
  CODECFS_ASSIGN(const int64_t mode,
                 integer_field(codec, "mode", zfp_mode_fixed_accuracy, zfp_mode_fixed_rate, zfp_mode_reversible));
  switch (mode) {
    case zfp_mode_fixed_rate: {
      CODECFS_ASSIGN(const double rate, number_field(codec, "rate"));
      return zfp_fixed_rate(rate, array.type, array.lengths.size());
    }
    case zfp_mode_fixed_precision: {
      CODECFS_ASSIGN(const int64_t precision, integer_field(codec, "precision", -1, -1, UINT32_MAX));
      return zfp_fixed_precision(precision);
    }
    case zfp_mode_fixed_accuracy: {
      CODECFS_ASSIGN(const double tolerance, number_field(codec, "tolerance"));
      return zfp_fixed_accuracy(tolerance, array.type);
    }
    default: return zfp_reversible();
  }
}

Result<Buffer> decode(const Zfpy& zfpy, Bytes in, const SizeBound& bound) {
  const uint64_t size = zfp_decoded_bytes(zfpy.array);
  if (size > bound.max) return fail(EIO, "a chunk of {} bytes, over the limit of {}", size, bound.max);
  return zfp_decode_with_header(zfpy.array, in);
}

}  // namespace

Filter make_filter() {
  return {
      .name = "zfpy",
      .codec = "zfpy",
      .library = fmt::format("zfp {}", ZFP_VERSION_STRING),
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        Zfpy zfpy;
        CODECFS_ASSIGN(zfpy.array, array_of(context.chunk));
        CODECFS_ASSIGN(zfpy.parameters, parse_mode(context.stage.codec, zfpy.array));
        return Coder{.decode = [zfpy](Buffer in, const SizeBound& out) { return decode(zfpy, in.bytes(), out); },
                     .encode = [zfpy](Bytes in) { return zfp_encode(zfpy.parameters, zfpy.array, in, true); },
                     .encoded = [zfpy](const SizeBound&) -> SizeBound {
                       return {.max = zfp_max_bytes(zfpy.parameters, zfpy.array), .exact = std::nullopt};
                     },
                     .encoded_chunk = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs::zfpy
