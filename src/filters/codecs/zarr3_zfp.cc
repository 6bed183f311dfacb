// zfp of Zarr v3: zarr-extensions "zfp". A stream of libzfp without a header (zfp_stream.h).
//
//   {"id": "zarr3:zfp", "mode": "reversible"}
//   {"id": "zarr3:zfp", "mode": "expert", "minbits": 1, "maxbits": 13, "maxprec": 19, "minexp": -2}
//   {"id": "zarr3:zfp", "mode": "fixed_rate", "rate": 10.5}            "fixed_precision": "precision"
//                                                                      "fixed_accuracy": "tolerance"
//
// Integers of 8 and 16 bits are stored as int32, shifted to the 31 bits that zfp encodes. Unsigned ones of 32 and 64
// bits are stored as signed ones, without those that do not fit.
//
// zarrs, the only writer known, computes the bits of a block of mode fixed_rate as if every chunk had three dimensions.
// The length of a stream tells which form it has; for other numbers of dimensions both can be read and none is written.

#include <algorithm>
#include <array>
#include <climits>
#include <concepts>
#include <limits>
#include <string>
#include <utility>

#include "filters/codecs/number_types.h"
#include "filters/codecs/zfp_stream.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs::zarr3_zfp {
namespace {

template <class T>
constexpr bool kIsNarrow = std::integral<T> && sizeof(T) < 4;
template <class T>
constexpr bool kIsWideUnsigned = std::unsigned_integral<T> && sizeof(T) >= 4;
template <class T>
constexpr bool kIsNumber = std::floating_point<T> || std::integral<T>;

/// The type that zfp encodes.
template <class T>
using Stored = std::conditional_t<
    kIsNarrow<T>, int32_t,
    std::conditional_t<kIsWideUnsigned<T>, std::make_signed_t<std::conditional_t<std::integral<T>, T, int>>, T>>;

template <class T>
Stored<T> promote(T value) {
  if constexpr (kIsNarrow<T>) {
    constexpr int32_t kMiddle = std::unsigned_integral<T> ? 1 << (sizeof(T) * CHAR_BIT - 1) : 0;
    return (static_cast<int32_t>(value) - kMiddle) * (1 << (31 - sizeof(T) * CHAR_BIT));
  } else {
    return static_cast<Stored<T>>(value);
  }
}

template <class T>
T demote(Stored<T> value) {
  if constexpr (kIsNarrow<T>) {
    constexpr int32_t kMiddle = std::unsigned_integral<T> ? 1 << (sizeof(T) * CHAR_BIT - 1) : 0;
    return static_cast<T>(std::clamp<int32_t>((value >> (31 - sizeof(T) * CHAR_BIT)) + kMiddle,
                                              std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (kIsWideUnsigned<T>) {
    return static_cast<T>(std::max<Stored<T>>(value, 0));
  } else {
    return value;
  }
}

struct Conversion {
  zfp_type type = zfp_type_none;
  uint64_t item_size = 0;  // bytes of a decoded element
  Result<Buffer> (*promote)(Bytes elements) = nullptr;
  Result<Buffer> (*demote)(Buffer elements) = nullptr;
};

template <class T>
Result<Buffer> promote_all(Bytes elements) {
  if constexpr (std::same_as<T, Stored<T>>) return Buffer::copy_of(elements);
  const size_t count = elements.size() / sizeof(T);
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(count * sizeof(Stored<T>)));
  for (size_t i = 0; i < count; ++i) {
    const T value = load_element<T>(elements.data() + i * sizeof(T));
    if constexpr (kIsWideUnsigned<T>)
      if (value > static_cast<T>(std::numeric_limits<Stored<T>>::max()))
        return fail(EINVAL, "element {}, {}, is beyond {}, the most that zfp stores", i, value,
                    std::numeric_limits<Stored<T>>::max());
    store_element(out.data() + i * sizeof(Stored<T>), promote(value));
  }
  return out;
}

template <class T>
Result<Buffer> demote_all(Buffer elements) {
  if constexpr (std::same_as<T, Stored<T>>) return elements;
  const size_t count = elements.size() / sizeof(Stored<T>);
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(count * sizeof(T)));
  for (size_t i = 0; i < count; ++i)
    store_element(out.data() + i * sizeof(T),
                  demote<T>(load_element<Stored<T>>(elements.data() + i * sizeof(Stored<T>))));
  return out;
}

template <class T>
constexpr zfp_type kZfpType = std::same_as<T, int32_t>   ? zfp_type_int32
                              : std::same_as<T, int64_t> ? zfp_type_int64
                              : std::same_as<T, float>   ? zfp_type_float
                                                         : zfp_type_double;

Result<Conversion> conversion_of(const ChunkShape& chunk) {
  if (!chunk.type_name.empty()) return fail(EINVAL, "does not work on elements of data type {}", chunk.type_name);
  if (is_foreign_order(chunk.type)) return fail(EINVAL, "stores elements in little-endian order");
  return visit_number_type(chunk.type, [&]<class T>(T) -> Result<Conversion> {
    if constexpr (kIsNumber<T>)
      return Conversion{kZfpType<Stored<T>>, sizeof(T), promote_all<T>, demote_all<T>};
    else
      return fail(EINVAL, "does not work on elements of dtype {}", print_json(print_dtype(chunk.type)));
  });
}

struct Zfp {
  Conversion conversion;
  ZfpArray array;
  ZfpParameters parameters;
  ZfpParameters of_zarrs;  // as zarrs computes them
};

/// The members that a mode has beside "mode".
std::vector<std::string> members_of(const std::string& mode) {
  if (mode == "expert") return {"minbits", "maxbits", "maxprec", "minexp"};
  if (mode == "fixed_rate") return {"rate"};
  if (mode == "fixed_precision") return {"precision"};
  if (mode == "fixed_accuracy") return {"tolerance"};
  return {};
}

Result<int64_t> required(const Json& codec, const char* key, int64_t low, int64_t high) {
  if (codec.value(key, Json()).is_null()) return fail(EINVAL, "\"{}\" is missing", key);
  return integer_field(codec, key, 0, low, high);
}

Result<ZfpParameters> parse_expert(const Json& codec, zfp_type type) {
  ZfpParameters parameters;
  CODECFS_ASSIGN(const int64_t minbits, required(codec, "minbits", 0, UINT32_MAX));
  CODECFS_ASSIGN(const int64_t maxbits, required(codec, "maxbits", 0, UINT32_MAX));
  CODECFS_ASSIGN(const int64_t maxprec, required(codec, "maxprec", 0, UINT32_MAX));
  CODECFS_ASSIGN(const int64_t minexp, required(codec, "minexp", INT32_MIN, INT32_MAX));
  parameters.minbits = static_cast<unsigned>(minbits);
  parameters.maxbits = static_cast<unsigned>(maxbits);
  parameters.maxprec = static_cast<unsigned>(maxprec);
  parameters.minexp = static_cast<int>(minexp);
  return zfp_expert(parameters, type);
}

Result<ZfpParameters> parse_mode(const Json& codec, const std::string& mode, zfp_type type, size_t rank) {
  if (mode == "reversible") return zfp_reversible();
  if (mode == "expert") return parse_expert(codec, type);
  if (mode == "fixed_rate") {
    CODECFS_ASSIGN(const double rate, number_field(codec, "rate"));
    return zfp_fixed_rate(rate, type, rank);
  }
  if (mode == "fixed_precision") {
    CODECFS_ASSIGN(const int64_t precision, required(codec, "precision", 0, UINT32_MAX));
    return zfp_fixed_precision(precision);
  }
  if (mode == "fixed_accuracy") {
    CODECFS_ASSIGN(const double tolerance, number_field(codec, "tolerance"));
    return zfp_fixed_accuracy(tolerance, type);
  }
  return fail(EINVAL, "\"mode\": \"{}\" is not known", mode);
}

Result<Zfp> parse_zfp(const StageContext& context) {
  const Json& codec = context.stage.codec;
  CODECFS_ASSIGN(const std::string mode, text_field(codec, "mode", ""));
  const std::vector<std::string> members = members_of(mode);
  for (const auto& [key, value] : codec.items())
    if (key != "id" && key != "mode" && std::ranges::find(members, key) == members.end())
      return fail(EINVAL, "\"{}\" is not known in mode \"{}\"", key, mode);
  Zfp zfp;
  CODECFS_ASSIGN(zfp.conversion, conversion_of(context.chunk));
  zfp.array = {zfp.conversion.type, context.chunk.chunks};
  if (zfp.array.lengths.empty()) zfp.array.lengths = {1};
  const size_t rank = zfp.array.lengths.size();
  if (rank > 4) return fail(EINVAL, "does not work on {} dimensions, only on 1 to 4", rank);
  CODECFS_ASSIGN(zfp.parameters, parse_mode(codec, mode, zfp.array.type, rank));
  CODECFS_ASSIGN(zfp.of_zarrs, parse_mode(codec, mode, zfp.array.type, 3));
  return zfp;
}

Result<Buffer> decode(const Zfp& zfp, Bytes in, const SizeBound& bound) {
  const uint64_t size = zfp_decoded_bytes(zfp.array) / zfp_type_size(zfp.array.type) * zfp.conversion.item_size;
  if (size > bound.max) return fail(EIO, "a chunk of {} bytes, over the limit of {}", size, bound.max);
  const bool is_specified = zfp.parameters == zfp.of_zarrs || is_fixed_size(zfp.parameters, zfp.array, in.size());
  CODECFS_ASSIGN(Buffer elements, zfp_decode(is_specified ? zfp.parameters : zfp.of_zarrs, zfp.array, in));
  return zfp.conversion.demote(std::move(elements));
}

Result<Buffer> encode(const Zfp& zfp, Bytes in) {
  if (zfp.parameters != zfp.of_zarrs)
    return fail(
        ENOTSUP,
        "in mode fixed_rate, writers disagree about the length of blocks of {} dimensions: such chunks are read "
        "only",
        zfp.array.lengths.size());
  CODECFS_ASSIGN(const Buffer elements, zfp.conversion.promote(in));
  return zfp_encode(zfp.parameters, zfp.array, elements.bytes(), false);
}

}  // namespace

Filter make_filter() {
  return {
      .name = "zarr3-zfp",
      .codec = "zarr3:zfp",
      .library = fmt::format("zfp {}", ZFP_VERSION_STRING),
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const Zfp zfp, parse_zfp(context));
        return Coder{
            .decode = [zfp](Buffer in, const SizeBound& out) { return decode(zfp, in.bytes(), out); },
            .encode = [zfp](Bytes in) { return encode(zfp, in); },
            .encoded = [zfp](const SizeBound&) -> SizeBound {
              return {.max = std::max(zfp_max_bytes(zfp.parameters, zfp.array), zfp_max_bytes(zfp.of_zarrs, zfp.array)),
                      .exact = std::nullopt};
            },
            .encoded_chunk = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs::zarr3_zfp
