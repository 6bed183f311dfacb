#include "backends/zarr/metadata/zarr3_write.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "base/endian.h"
#include "filters/core/encoded_type.h"
#include "filters/core/zarr3_codecs.h"
#include "model/base64.h"
#include "model/json.h"
#include "model/limits.h"
#include "model/zarr3_type.h"

namespace codecfs::zarr {
namespace {

std::string print_indented(const Json& json) { return print_json(json, 2); }

Result<Json> parse_zarr_json(std::string_view text, uint64_t most_bytes = kMaxJsonBytes) {
  auto json = parse_json(text, most_bytes);
  if (!json) return fail(json.error().code == ENOMEM ? ENOMEM : EIO, "{}: {}", kZarrJson, json.error().reason);
  if (!json->is_object()) return fail(EIO, "{}: no JSON object", kZarrJson);
  return json;
}

std::unexpected<Error> no_memory() { return fail(ENOMEM, "{}: no memory to change it", kZarrJson); }

Json list_of(std::span<const uint64_t> lengths) {
  Json list = Json::array();
  for (const uint64_t length : lengths) list.push_back(length);
  return list;
}

/// The attribute as it is stored; _FillValue of floats as xarray reads it: the inverse of what parse_zarr3_array()
/// decodes.
Json stored_attribute(const Attribute& attribute, const DataType* type) {
  const bool is_encoded = attribute.name == kFillAttribute && type != nullptr &&
                          (type->kind == TypeKind::floating || type->kind == TypeKind::complex);
  if (!is_encoded) return attribute.value;
  const auto encode = [](const Json& value) -> Json {
    double number = 0;
    if (value.is_number()) {
      number = value.get<double>();
    } else if (const auto bytes = fill_bytes(parse_dtype("<f8").value(), value); value.is_string() && bytes) {
      number = std::bit_cast<double>(load_le<uint64_t>(bytes->data()));
    } else {
      return value;
    }
    return encode_base64(number);
  };
  const Json& value = attribute.value;
  return value.is_array() && value.size() == 2 ? Json::array({encode(value[0]), encode(value[1])}) : encode(value);
}

Result<Json> print_stored_attributes(const Variable& variable) {
  Json attributes = Json::object();
  for (const Attribute& attribute : variable.attributes) {
    CODECFS_TRY(check_attribute_texts(attribute));
    attributes[attribute.name] = stored_attribute(attribute, &variable.type);
  }
  return attributes;
}

/// EINVAL instead of EOPNOTSUPP: what a user asks for cannot be stored.
template <class T>
Result<T> or_invalid(Result<T> result) {
  if (!result && result.error().code == EOPNOTSUPP) result.error().code = EINVAL;
  return result;
}

Result<Json> print_names(const OptionalNames& names) {
  Json list = Json::array();
  for (const std::optional<std::string>& name : names) {
    list.push_back(name ? Json(*name) : Json());
    CODECFS_TRY(check_attribute_texts({"dimension_names", list.back()}));
  }
  return list;
}

/// The list of codecs of a new array.
Result<Json> print_codecs(const Variable& variable) {
  if (variable.shards) return variable.shards->codecs;
  CODECFS_ASSIGN(const Chain chain, complete_chain(variable.filters, variable));
  return or_invalid(
      filters::print_zarr3_codecs(chain.stages, variable.type, variable.object_codec, {}, variable.zarr3_type));
}

/// Whether a new array that was read back has the chunks and shards that were asked for, and they can be written.
Result<> check_shards(const Array& read, const Variable& wanted) {
  if (read.shards.has_value() != wanted.shards.has_value() || read.variable.grid.chunks() != wanted.grid.chunks())
    return fail(EINVAL, "the shards cannot be represented in a zarr.json");
  if (!read.shards) return {};
  if (const auto writable = check_rewritable(*read.shards); !writable)
    return fail(EINVAL, "{}", writable.error().reason);
  CODECFS_TRY(complete_chain(read.variable.filters, read.variable));
  return {};
}

Result<std::string> print_new_array(const Variable& variable) {
  Json data_type = variable.zarr3_type;
  if (variable.zarr3_type.empty()) {
    CODECFS_ASSIGN(data_type,
                   or_invalid(print_zarr3_type(variable.type, variable.object_codec, variable.is_zarr3_struct)));
  }
  CODECFS_ASSIGN(Json codecs, print_codecs(variable));
  const ChunkGrid& files = variable.shards ? variable.shards->grid : variable.grid;
  std::vector<std::byte> fill = variable.fill;
  if (fill.empty()) fill.resize(variable.type.kind == TypeKind::object ? 4 : variable.type.size);
  const Zarr3Type type = {variable.type, variable.object_codec, variable.zarr3_type, variable.is_zarr3_struct};
  CODECFS_ASSIGN(Json attributes, print_stored_attributes(variable));
  Json json = {{"zarr_format", 3},
               {"node_type", "array"},
               {"shape", list_of(variable.grid.shape())},
               {"data_type", std::move(data_type)},
               {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", list_of(files.chunks())}}}}},
               {"chunk_key_encoding", print_chunk_keys(variable.chunk_keys)},
               {"fill_value", zarr3_fill_json(type, fill)},
               {"codecs", std::move(codecs)},
               {"attributes", std::move(attributes)}};
  if (const std::optional<OptionalNames> names = names_of(variable)) {
    if (names->size() != variable.grid.rank())
      return fail(EINVAL, "{} names for {} dimensions", names->size(), variable.grid.rank());
    CODECFS_ASSIGN(json["dimension_names"], print_names(*names));
  }
  json["storage_transformers"] = Json::array();
  const std::string text = print_indented(json);

  // Read the result back: it must mean the same.
  const auto read = parse_zarr3_array(text);
  if (!read) return fail(read.error().code == ENOMEM ? ENOMEM : EINVAL, "{}", read.error().reason);
  if (read->variable.unreadable) return fail(EINVAL, "{}", read->variable.unreadable->reason);
  CODECFS_TRY(check_shards(*read, variable));
  if (read->variable.type != variable.type || read->variable.zarr3_type != variable.zarr3_type)
    return fail(EINVAL, "elements of dtype {} cannot be represented in a zarr.json",
                print_json(print_dtype(variable.type)));
  if (read->variable.fill != fill)
    return fail(EINVAL, "the fill value {} cannot be represented in a zarr.json", print_json(variable.fill_value));
  return text;
}

bool is_named(const Json& codec, std::string_view name) {
  return (codec.is_object() ? codec.value("name", Json()) : codec) == name;
}

/// The list of codecs of the innermost chunks. Removes codecs in front of a sharding codec that are the first ones of
/// the innermost chunks (shard_layout.h): the caller replaces all of them.
Json* innermost_codecs(Json& codecs) {
  Json* list = &codecs;
  const auto is_sharding = [](const Json& codec) { return is_named(codec, "sharding_indexed"); };
  while (std::ranges::any_of(*list, is_sharding)) {
    Json kept = Json::array();
    bool is_before = true;
    for (Json& codec : *list) {
      if (is_sharding(codec)) is_before = false;
      if (!is_before || is_named(codec, "transpose")) kept.push_back(std::move(codec));
    }
    *list = std::move(kept);
    list = &(*std::ranges::find_if(*list, is_sharding))["configuration"]["codecs"];
  }
  return list;
}

}  // namespace

std::string print_zarr3_group() {
  return print_indented(Json{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", Json::object()}});
}

Result<std::string> print_zarr3_array(const Variable& variable) try {
  return print_new_array(variable);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for the metadata of a new array");
}

Result<std::string> with_zarr3_shape(std::string_view text, std::span<const uint64_t> shape) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text));
  json["shape"] = list_of(shape);
  // Some writers set the chunk length of an empty dimension to 0, which is only valid while it is empty.
  if (json["chunk_grid"].is_object())
    for (Json& length : json["chunk_grid"]["configuration"]["chunk_shape"])
      if (length == 0) length = 1;
  return print_indented(json);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> with_zarr3_dimensions(std::string_view text, const std::optional<OptionalNames>& names) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text));
  if (names) {
    CODECFS_ASSIGN(json["dimension_names"], print_names(*names));
  } else {
    json.erase("dimension_names");
  }
  return print_indented(json);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> with_zarr3_chain(std::string_view text, const Array& array,
                                     std::span<const FilterStage> chain) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text));
  const Variable& variable = array.variable;
  Json* const codecs = innermost_codecs(json["codecs"]);
  CODECFS_ASSIGN(Json list, or_invalid(filters::print_zarr3_codecs(chain, variable.type, variable.object_codec, {},
                                                                   variable.zarr3_type)));
  const filters::ElementType type{variable.type, variable.zarr3_type};
  // What is in front of the stages stays: the order of the axes.
  Json kept = Json::array();
  for (const Json& codec : *codecs)
    if (codec.is_object() && codec.value("name", Json()) == "transpose") kept.push_back(codec);
  kept.insert(kept.end(), list.begin(), list.end());
  *codecs = std::move(kept);
  std::string changed = print_indented(json);
  const auto read = parse_zarr3_array(changed);
  if (!read) return fail(read.error().code == ENOMEM ? ENOMEM : EINVAL, "{}", read.error().reason);
  if (read->variable.stored_order != variable.stored_order)
    return fail(EINVAL, "{}: the order of its axes would change", kZarrJson);
  const auto& stages = read->variable.filters;
  if (read->variable.type != variable.type || filters::encoded_type(stages, type) != filters::encoded_type(chain, type))
    return fail(EINVAL, "{}: Zarr v3 cannot represent the byte order of elements with these codecs", kZarrJson);
  return changed;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::string> with_zarr3_sharding(std::string_view text, const Variable& wanted) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text));
  CODECFS_ASSIGN(json["codecs"], print_codecs(wanted));
  const ChunkGrid& files = wanted.shards ? wanted.shards->grid : wanted.grid;
  json["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", list_of(files.chunks())}}}};
  std::string changed = print_indented(json);
  const auto read = parse_zarr3_array(changed);
  if (!read) return fail(read.error().code == ENOMEM ? ENOMEM : EINVAL, "{}", read.error().reason);
  if (read->variable.unreadable) return fail(EINVAL, "{}", read->variable.unreadable->reason);
  CODECFS_TRY(check_shards(*read, wanted));
  return changed;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::optional<std::string>> with_zarr3_attributes(std::string_view text, const AttributeChange& change,
                                                         const DataType* type) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text));
  Json& attributes = json["attributes"];
  if (attributes.is_null()) attributes = Json::object();
  if (!attributes.is_object()) return fail(EIO, "{}: \"attributes\" is not an object", kZarrJson);
  bool is_changed = false;
  for (const std::string& name : change.remove) {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return fail(ENODATA, "there is no attribute {}", name);
    attributes.erase(found);
    is_changed = true;
  }
  for (const Attribute& attribute : change.set) {
    CODECFS_TRY(check_attribute_texts(attribute));
    Json value = stored_attribute(attribute, type);
    const auto found = attributes.find(attribute.name);
    if (found != attributes.end() && prints_same(*found, value)) continue;
    attributes[attribute.name] = std::move(value);
    is_changed = true;
  }
  if (!is_changed) return std::nullopt;
  return print_indented(json);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::optional<std::string>> with_zarr3_entries(std::string_view text, Json entries) try {
  CODECFS_ASSIGN(Json json, parse_zarr_json(text, kMaxConsolidatedBytes));
  const auto consolidated = json.find("consolidated_metadata");
  if (consolidated == json.end() || !consolidated->is_object() || consolidated->value("kind", Json()) != "inline")
    return std::nullopt;
  (*consolidated)["metadata"] = std::move(entries);
  return print_indented(json);
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace codecfs::zarr
