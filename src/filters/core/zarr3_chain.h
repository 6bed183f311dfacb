#pragma once
// `_Codecs` in the form of Zarr v3: the list of what encodes the stored chunks of a variable, without the shards that
// hold them.
//
//   [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 3}}]

#include <span>
#include <vector>

#include "base/result.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::filters {

/// Whether a list of codecs has this form ("name"), not numcodecs' ("id").
bool is_zarr3_form(const Json& codecs);

/// The list of a variable, transpose included. EOPNOTSUPP with the reason if Zarr v3 cannot represent it.
Result<Json> print_zarr3_chain(const Variable& variable);
/// The list for new variables of any type, and so without the codec that makes bytes.
Result<Json> print_zarr3_chain(std::span<const FilterStage> chain);

/// The pipeline that such a list gives a variable, in numcodecs' form; null: any new variable. The codec that makes
/// bytes may be omitted, and transpose with it. EINVAL for a malformed list, shards, and anything that does not belong
/// to the pipeline but differs from the variable: the order of axes, the byte order, the codec of strings.
Result<std::vector<FilterStage>> parse_zarr3_chain(const Json& codecs, const Variable* variable);

/// Whether two pipelines have the same codecs in a zarr.json.
bool are_equal_in_zarr3(std::span<const FilterStage> one, std::span<const FilterStage> other, uint64_t item_size);
/// Whether two values are the same, whatever the order of their keys.
bool are_same_json(const Json& one, const Json& other);

}  // namespace codecfs::filters
