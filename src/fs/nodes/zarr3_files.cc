#include "fs/nodes/zarr3_files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "backends/api/zarr_texts.h"
#include "filters/core/zarr3_chain.h"
#include "filters/core/zarr3_codecs.h"
#include "fs/nodes/metadata_files.h"
#include "model/base64.h"
#include "model/chunk_keys.h"
#include "model/json.h"
#include "model/limits.h"
#include "model/zarr3_type.h"

namespace codecfs::fs {
namespace {

/// The value of an attribute that may be a list of one.
const Json& single(const Json& value) { return value.is_array() && value.size() == 1 ? value[0] : value; }

std::optional<double> double_of(const Json& text) {
  if (!text.is_string()) return std::nullopt;
  return double_in_base64(text.get_ref<const std::string&>());
}

/// A number of so many bytes, as attributes of this type print it.
Json number_of_size(double number, uint64_t size) {
  return size == sizeof(float) ? shortest_double(static_cast<float>(number)) : number;
}

/// The bytes of a fill element: zeros where the variable has none.
std::vector<std::byte> fill_element(const Variable& variable) {
  if (!variable.fill.empty()) return variable.fill;
  return std::vector<std::byte>(variable.type.size);
}

Json attributes_json(const Variable& variable) {
  Json json = Json::object();
  const auto put_fill = [&](const Json& value) {
    if (std::optional<Json> printed = print_fill_attribute(variable, value))
      append_member(json, kFillAttribute, *std::move(printed));
  };
  bool has_fill = false;
  for (const Attribute& attribute : variable.attributes) {
    if (attribute.name == kFillAttribute) {
      has_fill = true;
      put_fill(attribute.value);
    } else {
      append_member(json, attribute.name, attribute.value);
    }
  }
  // In Zarr v2, xarray masks what equals the fill value. Zero is Zarr's default and marks nothing.
  const bool is_mask =
      !variable.fill_value.is_null() && variable.type.kind != TypeKind::object && !is_all_zero(variable.fill);
  if (!has_fill && is_mask) put_fill(variable.fill_value);
  if (variable.unreadable_attributes) json.update(unreadable_json(*variable.unreadable_attributes));
  return json;
}

Json node_json(const char* type) {
  Json json = Json::object();
  json["zarr_format"] = 3;
  json["node_type"] = type;
  return json;
}

template <class... Args>
std::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return fail(EINVAL, "zarr.json: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// Errors of what parses the values are of what was written.
template <class T>
Result<T> of_file(Result<T> result) {
  if (!result && result.error().code != ENOMEM) return refuse("{}", result.error().reason);
  return result;
}

Result<std::vector<uint64_t>> parse_lengths(const char* key, const Json& list) {
  std::vector<uint64_t> lengths;
  if (list.is_array())
    for (const Json& item : list)
      if (item.is_number_unsigned()) lengths.push_back(item.get<uint64_t>());
  if (!list.is_array() || lengths.size() != list.size()) return refuse("\"{}\" is {}", key, print_json(list));
  return lengths;
}

Result<ChunkGrid> parse_grid(const Json& json) {
  CODECFS_ASSIGN(std::vector<uint64_t> shape, parse_lengths("shape", member(json, "shape")));
  const Json grid = member(json, "chunk_grid");
  if (member(grid, "name") != "regular") return refuse("\"chunk_grid\" {} is not a regular one", print_json(grid));
  CODECFS_ASSIGN(std::vector<uint64_t> chunks,
                 parse_lengths("chunk_shape", member(member(grid, "configuration"), "chunk_shape")));
  return of_file(ChunkGrid::make(std::move(shape), std::move(chunks)));
}

Result<std::optional<OptionalNames>> parse_dimension_names(const Json& names, size_t rank) {
  if (names.is_null()) return std::nullopt;
  const auto is_name = [](const Json& name) { return name.is_string() || name.is_null(); };
  if (!names.is_array() || names.size() != rank || !std::ranges::all_of(names, is_name))
    return refuse("\"dimension_names\" is {}, not a name or null for each dimension", print_json(names));
  OptionalNames parsed;
  for (const Json& name : names)
    parsed.push_back(name.is_null() ? std::nullopt : std::optional(name.get<std::string>()));
  return parsed;
}

/// Type, object codec and filters.
Result<> parse_codecs(const Json& json, bool with_codecs, Variable& variable) {
  CODECFS_ASSIGN(Zarr3Type type, of_file(parse_zarr3_type(member(json, "data_type"))));
  const ChunkGrid files = variable.grid;
  CODECFS_ASSIGN(
      zarr_texts::ChunkCodecs parsed,
      of_file(zarr_texts::parse_chunk_codecs(member(json, "codecs"), type.type, files.shape(), files.chunks())));
  filters::Zarr3Codecs& codecs = parsed.codecs;
  if (codecs.unreadable) return refuse("{}", codecs.unreadable->reason);
  if (parsed.is_sharded && !with_codecs)
    return refuse("this tree shows the chunks in shards, and not shards: write to .codecfs/view/encoded3");
  if (parsed.is_sharded) {
    variable.shards = Sharding{files, member(json, "codecs")};
    CODECFS_ASSIGN(variable.grid, of_file(ChunkGrid::make(files.shape(), std::move(parsed.chunks))));
  } else if (!codecs.order.empty())
    return refuse("chunks are in C order here, and transpose changes it");
  if (*codecs.object_codec != *type.object_codec)
    return refuse("the data type {} needs another codec than {}", print_json(member(json, "data_type")),
                  print_json(member(json, "codecs")));
  if (!codecs.stages.empty() && !with_codecs)
    return refuse(
        "\"codecs\" has {}, but chunks are not encoded in this tree: write the codec bytes alone, and the filters of "
        "the "
        "stored chunks into _Filter or user._Filter, or write to .codecfs/view/encoded3",
        print_json(filters::print_zarr3_stage(codecs.stages.front(), type.type.size)));
  if (!type.name.empty() && type.type.size > 1 && codecs.byte_order == ByteOrder::big)
    return refuse("big-endian {} cannot be stored here", type.name);
  variable.type = with_byte_order(std::move(type.type), codecs.byte_order.value_or(ByteOrder::little));
  variable.object_codec = std::move(type.object_codec);
  variable.zarr3_type = std::move(type.name);
  variable.is_zarr3_struct = type.is_struct;
  variable.filters = std::move(codecs.stages);
  return {};
}

Result<Variable> parse_array(const Json& json, bool with_codecs) {
  Variable variable;
  CODECFS_ASSIGN(variable.grid, parse_grid(json));
  CODECFS_TRY(parse_codecs(json, with_codecs, variable));
  if (variable.type.size > kMaxElementBytes)
    return refuse("an element has {} bytes, more than {}", variable.type.size, kMaxElementBytes);
  if (variable.grid.elements_per_chunk() > max_chunk_bytes() / std::max<uint64_t>(variable.type.size, 1))
    return refuse("a chunk is larger than {}", max_chunk_text());
  if (variable.type.kind != TypeKind::object)
    variable.chunk_bytes = variable.grid.elements_per_chunk() * variable.type.size;
  CODECFS_ASSIGN(variable.chunk_keys, of_file(parse_chunk_keys(member(json, "chunk_key_encoding"))));
  if (const Json transformers = member(json, "storage_transformers"); !transformers.empty())
    return refuse("\"storage_transformers\" {} are not known", print_json(transformers));
  CODECFS_ASSIGN(variable.fill, of_file(zarr3_fill_bytes({variable.type, variable.object_codec, variable.zarr3_type},
                                                         member(json, "fill_value"))));
  return variable;
}

/// Refuses unknown keys, also those that need not be understood: they could not be stored.
Result<> check_keys(const Json& json, bool is_array) {
  constexpr std::array<std::string_view, 4> kBoth = {"zarr_format", "node_type", "attributes", "consolidated_metadata"};
  constexpr std::array<std::string_view, 8> kOfArray = {
      "shape",      "data_type", "chunk_grid",      "chunk_key_encoding",
      "fill_value", "codecs",    "dimension_names", "storage_transformers"};
  for (const auto& [key, value] : json.items()) {
    const bool is_known = std::ranges::find(kBoth, key) != kBoth.end() ||
                          (is_array && std::ranges::find(kOfArray, key) != kOfArray.end());
    if (!is_known) return refuse("the key \"{}\" cannot be stored here", key);
  }
  return {};
}

}  // namespace

Json zarr3_group_json(const Result<std::vector<Attribute>>& attributes) {
  Json json = node_json("group");
  json["attributes"] = attributes ? zattrs_json(std::span(*attributes)) : unreadable_json(attributes.error());
  return json;
}

std::string zarr3_group_text(const Result<std::vector<Attribute>>& attributes, std::string_view below) {
  Json json = zarr3_group_json(attributes);
  json["consolidated_metadata"] = {{"kind", "inline"}, {"must_understand", false}};
  json["consolidated_metadata"]["metadata"] = Json::object();
  std::string text = file_text(json);
  if (below.empty()) return text;
  constexpr size_t kOuter = kZarr3BelowIndent - 4;
  text.insert(text.rfind("{}") + 1, fmt::format("{}\n{:{}}", below, "", kOuter));
  return text;
}

namespace {

/// `codecs`: of chunks with this grid.
Result<Json> array_json(const Variable& described, const ChunkGrid& grid, Json codecs, const ChunkKeys& keys) {
  Json data_type = described.zarr3_type;
  if (described.zarr3_type.empty()) {
    CODECFS_ASSIGN(data_type, print_zarr3_type(described.type, described.object_codec, described.is_zarr3_struct));
  }
  Json json = node_json("array");
  json["shape"] = described.grid.shape();
  json["data_type"] = std::move(data_type);
  json["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", grid.chunks()}}}};
  json["chunk_key_encoding"] = print_chunk_keys(keys);
  json["fill_value"] =
      zarr3_fill_json({described.type, described.object_codec, described.zarr3_type, described.is_zarr3_struct},
                      fill_element(described));
  json["codecs"] = std::move(codecs);
  json["attributes"] = attributes_json(described);
  if (const std::optional<OptionalNames> names = names_of(described)) {
    json["dimension_names"] = Json::array();
    for (const std::optional<std::string>& name : *names)
      json["dimension_names"].push_back(name ? Json(*name) : Json());
  }
  return json;
}

}  // namespace

Result<Json> zarr3_array_json(const Variable& described, std::span<const FilterStage> chain, const ChunkKeys& keys) {
  CODECFS_ASSIGN(Json codecs,
                 filters::print_zarr3_codecs(chain, described.type, described.object_codec, {}, described.zarr3_type));
  return array_json(described, described.grid, std::move(codecs), keys);
}

Result<Json> zarr3_sharded_json(const Variable& described, const ChunkKeys& keys) {
  return array_json(described, described.shards->grid, described.shards->codecs, keys);
}

Result<WrittenZarr3> parse_zarr_json(std::string_view text, bool with_codecs) {
  const Result<Json> parsed = parse_json(text);
  if (!parsed) return refuse("{}", parsed.error().reason);
  const Json& json = *parsed;
  if (!json.is_object()) return refuse("no JSON object");
  if (member(json, "zarr_format") != 3) return refuse("\"zarr_format\" is {}", print_json(member(json, "zarr_format")));
  const Json type = member(json, "node_type");
  if (type != "group" && type != "array") return refuse("\"node_type\" is {}", print_json(type));
  WrittenZarr3 written;
  written.is_array = type == "array";
  CODECFS_TRY(check_keys(json, written.is_array));
  const Json given = member(json, "attributes");
  if (!given.is_null() && !given.is_object()) return refuse("\"attributes\" is {}", print_json(given));
  if (written.is_array) {
    CODECFS_ASSIGN(written.variable, parse_array(json, with_codecs));
  }
  CODECFS_ASSIGN(written.attributes, of_file(written_attributes(given.is_null() ? Json::object() : given)));
  std::optional<std::vector<std::string>>& listed = written.attributes.dimensions;
  if (listed && (!written.is_array || listed->size() != written.variable.grid.rank())) {
    written.attributes.attributes.push_back({kDimensions, Json(*listed)});
    listed.reset();
  }
  if (!written.is_array) return written;
  Variable& variable = written.variable;
  CODECFS_ASSIGN(auto names, parse_dimension_names(member(json, "dimension_names"), variable.grid.rank()));
  set_names(variable, std::move(names));
  for (Attribute& attribute : written.attributes.attributes)
    if (attribute.name == kFillAttribute)
      if (std::optional<Json> value = parse_fill_attribute(written.variable, attribute.value))
        attribute.value = *std::move(value);
  return written;
}

bool are_same_shards(const Variable& one, const Variable& other) {
  if (!one.shards || !other.shards) return !one.shards && !other.shards;
  return one.shards->grid.chunks() == other.shards->grid.chunks() &&
         filters::are_same_json(one.shards->codecs, other.shards->codecs);
}

std::optional<Json> print_fill_attribute(const Variable& variable, const Json& value) {
  if (!variable.zarr3_type.empty()) return std::make_optional(value);  // as the source has it
  const Json& fill = single(value);
  switch (variable.type.kind) {
    case TypeKind::floating: {
      const std::optional<double> number = zarr3_number(fill);
      if (!number) return std::nullopt;
      return encode_base64(*number);
    }
    case TypeKind::complex: {
      if (!fill.is_array() || fill.size() != 2) return std::nullopt;
      const std::optional<double> real = zarr3_number(fill[0]);
      const std::optional<double> imaginary = zarr3_number(fill[1]);
      if (!real || !imaginary) return std::nullopt;
      return Json::array({encode_base64(*real), encode_base64(*imaginary)});
    }
    case TypeKind::boolean:
      if (!fill.is_boolean() && !fill.is_number()) return std::nullopt;
      return std::make_optional(fill);
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
      if (!fill.is_number()) return std::nullopt;
      return std::make_optional(fill);
    case TypeKind::object:
      if (!fill.is_string() || *variable.object_codec != Json{{"id", "vlen-utf8"}}) return std::nullopt;
      return std::make_optional(fill);
    default: return std::nullopt;
  }
}

std::optional<Json> parse_fill_attribute(const Variable& variable, const Json& value) {
  if (!variable.zarr3_type.empty()) return std::make_optional(value);
  const uint64_t size = variable.type.size;
  switch (variable.type.kind) {
    case TypeKind::floating: {
      const std::optional<double> number = double_of(value);
      if (!number) return std::nullopt;
      return number_of_size(*number, size);
    }
    case TypeKind::complex: {
      if (!value.is_array() || value.size() != 2) return std::nullopt;
      const std::optional<double> real = double_of(value[0]);
      const std::optional<double> imaginary = double_of(value[1]);
      if (!real || !imaginary) return std::nullopt;
      return Json::array({number_of_size(*real, size / 2), number_of_size(*imaginary, size / 2)});
    }
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
      if (!value.is_boolean() && !value.is_number()) return std::nullopt;
      return std::make_optional(value);
    case TypeKind::object:
      if (!value.is_string()) return std::nullopt;
      return std::make_optional(value);
    default: return std::nullopt;
  }
}

}  // namespace codecfs::fs
