#include "filters/core/zarr3_chain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "filters/core/codec_json.h"
#include "filters/core/zarr3_codecs.h"
#include "filters/core/zarr_chain.h"
#include "model/json.h"
#include "model/zarr3_type.h"

namespace codecfs::filters {
namespace {

/// The stages of `chain`, each with its codec: HDF5's have ids.
Result<std::vector<FilterStage>> with_codecs(std::span<const FilterStage> chain, uint64_t item_size) {
  const Json codecs = print_codecs(chain);
  return parse_zarr_codecs(Json(), codecs, item_size);
}

bool has_codec(const Json& codecs, std::string_view name) {
  return std::ranges::any_of(codecs, [&](const Json& codec) {
    return codec == name || (codec.is_object() && codec.value("name", Json()) == name);
  });
}

/// Whether chunks are the same in both orders of axes.
bool is_same_order(const Variable& variable, const std::vector<size_t>& order) {
  if (order == variable.stored_order) return true;
  return variable.stored_order.empty() &&
         std::ranges::count_if(variable.grid.chunks(), [](uint64_t length) { return length > 1; }) < 2;
}

Result<> check_same_layout(const Variable& variable, const Zarr3Codecs& codecs) {
  if (!is_same_order(variable, codecs.order))
    return fail(EINVAL, "transpose: the order of axes of stored chunks, {}, cannot be changed",
                variable.stored_order.empty() ? "that of the array" : print_json(Json(variable.stored_order)));
  const ByteOrder order = common_byte_order(variable.type).value_or(ByteOrder::none);
  const bool is_small = order == ByteOrder::none && variable.zarr3_type.empty();
  if (codecs.byte_order && !is_small && *codecs.byte_order != (order == ByteOrder::big ? order : ByteOrder::little))
    return fail(EINVAL, "bytes: the byte order of stored elements, {}, cannot be changed",
                order == ByteOrder::big ? "big" : "little");
  if (codecs.object_codec != variable.object_codec)
    return fail(EINVAL, "elements are stored with the codec {}, not {}",
                variable.object_codec.is_null() ? "bytes" : print_json(variable.object_codec),
                codecs.object_codec.is_null() ? "bytes" : print_json(codecs.object_codec));
  return {};
}

}  // namespace

bool is_zarr3_form(const Json& codecs) {
  if (!codecs.is_array() || codecs.empty()) return false;
  const Json& first = codecs.front();
  return first.is_string() || (first.is_object() && first.contains("name") && !first.contains("id"));
}

Result<Json> print_zarr3_chain(const Variable& variable) {
  CODECFS_ASSIGN(const auto stages, with_codecs(variable.filters, variable.type.size));
  if (variable.zarr3_type.empty()) CODECFS_TRY(print_zarr3_type(variable.type, variable.object_codec));
  return print_zarr3_codecs(stages, variable.type, variable.object_codec, variable.stored_order, variable.zarr3_type);
}

Result<Json> print_zarr3_chain(std::span<const FilterStage> chain) {
  CODECFS_ASSIGN(const auto stages, with_codecs(chain, 0));
  CODECFS_TRY(print_zarr3_codecs(stages, {}, {}));
  Json list = Json::array();
  for (const FilterStage& stage : stages) {
    list.push_back(print_zarr3_stage(stage, 0));
    if (list.back()["name"] == "blosc" && !stage.codec->contains("typesize"))
      list.back()["configuration"].erase("typesize");  // that of each variable
  }
  return list;
}

Result<std::vector<FilterStage>> parse_zarr3_chain(const Json& codecs, const Variable* variable) {
  if (!codecs.is_array()) return fail(EINVAL, "not a list of codecs");
  const Variable any;
  const Variable& array = variable != nullptr ? *variable : any;
  if (has_codec(codecs, "sharding_indexed"))
    return fail(EINVAL, "sharding_indexed: this list is of the chunks in shards, which stay as they are");
  if (variable == nullptr && has_codec(codecs, "transpose"))
    return fail(EINVAL, "transpose: the variables to come need not have the same dimensions");
  CODECFS_ASSIGN(const Json serializer, print_zarr3_serializer(array.type, array.object_codec, array.zarr3_type));
  const Json complete = with_serializer(codecs, serializer);
  auto parsed = parse_zarr3_codecs(complete, array.type, array.grid.rank());
  if (!parsed) return pass_on(parsed);
  // Without the codec that makes bytes, the list need not say how the axes are stored either.
  if (complete.size() != codecs.size() && !has_codec(codecs, "transpose")) parsed->order = array.stored_order;
  if (parsed->unreadable) return fail(EINVAL, "{}", parsed->unreadable->reason);
  if (variable != nullptr) CODECFS_TRY(check_same_layout(array, *parsed));
  if (variable == nullptr && !parsed->object_codec.is_null())
    return fail(EINVAL, "{}: the variables to come need not be of its type", print_json(parsed->object_codec));
  return for_numcodecs(std::move(parsed->stages), array.type.size);
}

bool are_same_json(const Json& one, const Json& other) {
  if (!one.is_object() || !other.is_object()) {
    if (!one.is_array() || !other.is_array()) return print_json(one) == print_json(other);
    return std::ranges::equal(one, other, are_same_json);
  }
  if (one.size() != other.size()) return false;
  return std::ranges::all_of(one.items(), [&](const auto& item) {
    const auto found = other.find(item.key());
    return found != other.end() && are_same_json(item.value(), *found);
  });
}

bool are_equal_in_zarr3(std::span<const FilterStage> one, std::span<const FilterStage> other, uint64_t item_size) {
  return std::ranges::equal(one, other, [item_size](const FilterStage& a, const FilterStage& b) {
    return are_same_json(print_zarr3_stage(a, item_size), print_zarr3_stage(b, item_size));
  });
}

}  // namespace codecfs::filters
