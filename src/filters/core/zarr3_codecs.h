#pragma once
// The codec list of a Zarr v3 array ("codecs" of a zarr.json) as a pipeline, and back. Sources: Zarr v3 core
// specification, "Codecs"; zarr-extensions, "codecs".
//
//   array -> array ...            transpose        Zarr3Codecs::order
//                                 others           stages
//   array -> bytes                bytes            Zarr3Codecs::byte_order
//                                 vlen-utf8, ...   Zarr3Codecs::object_codec
//   bytes -> bytes ...                             stages
//
// A stage has the JSON that numcodecs uses for the same codec: {"id": "zstd", "level": 0}. "numcodecs.zlib" has the id
// "zlib"; a codec that only Zarr v3 knows has the id "zarr3:NAME".

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/data_type.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::filters {

struct Zarr3Codecs {
  std::vector<FilterStage> stages;         // in the order of encoding
  std::vector<size_t> order;               // stored axis i is axis order[i] of the array; empty: the same order
  std::optional<ByteOrder> byte_order;     // of the array's elements; none if no codec says it
  JsonValue object_codec;                  // {"id": "vlen-utf8"}; null for other arrays
  std::optional<JsonValue> sharding;       // configuration of a codec sharding_indexed; `stages` follow it
  std::vector<FilterStage> stages_before;  // of a sharding codec: array -> array codecs in front of it
  std::optional<Error> unreadable;         // why chunks cannot be decoded: EOPNOTSUPP
};

/// `codecs`: a list of names and objects. `type`: of the array. Unknown codecs become stages that fail when a chunk is
/// decoded. EINVAL if the list is malformed.
Result<Zarr3Codecs> parse_zarr3_codecs(const Json& codecs, const DataType& type, size_t rank);

/// The list for chunks that are encoded with these stages, each of which has a codec. `type`, `object_codec`: of the
/// array; `order` as in Zarr3Codecs; `type_name`: Variable::zarr3_type. EOPNOTSUPP with the reason if Zarr v3 cannot
/// represent it.
Result<Json> print_zarr3_codecs(std::span<const FilterStage> stages, const DataType& type, const Json& object_codec,
                                std::span<const size_t> order = {}, std::string_view type_name = {});

/// The codec that makes bytes of such arrays: `bytes`, or the object codec. EOPNOTSUPP.
Result<Json> print_zarr3_serializer(const DataType& type, const Json& object_codec, std::string_view type_name = {});
/// The list with this codec between those of arrays and those of bytes, if it has none that makes bytes of an array.
Json with_serializer(Json codecs, const Json& serializer);

/// The stage of one codec of a v3 list, and back. EINVAL.
Result<FilterStage> parse_zarr3_stage(const Json& codec, uint64_t item_size);
Json print_zarr3_stage(const FilterStage& stage, uint64_t item_size);

}  // namespace codecfs::filters
