#include "backends/zarr/metadata/zarr3_metadata.h"

#include <algorithm>
#include <new>
#include <utility>

#include "backends/zarr/metadata/shard_layout.h"
#include "model/base64.h"
#include "model/json.h"
#include "model/limits.h"
#include "model/zarr3_type.h"

namespace codecfs::zarr {
namespace {

constexpr std::string_view kGroupKeys[] = {"zarr_format", "node_type", "attributes", "consolidated_metadata"};
constexpr std::string_view kArrayKeys[] = {"zarr_format", "node_type",       "attributes",          "shape",
                                           "data_type",   "chunk_grid",      "chunk_key_encoding",  "fill_value",
                                           "codecs",      "dimension_names", "storage_transformers"};

template <class... Args>
std::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return fail(EIO, "{}: {}", kZarrJson, fmt::format(format, std::forward<Args>(args)...));
}

std::unexpected<Error> blame(const Error& error) {
  return fail(error.code == ENOMEM ? ENOMEM : EIO, "{}: {}", kZarrJson, error.reason);
}

Result<Json> parse_file(std::string_view text) {
  auto json = parse_json(text);
  if (!json) return blame(json.error());
  if (!json->is_object()) return bad("no JSON object");
  if (const Json format = member(*json, "zarr_format"); !is_format(format, 3))
    return fail(EOPNOTSUPP, "{}: \"zarr_format\" is {}, not 3", kZarrJson, print_json(format));
  return json;
}

/// An unknown key says itself whether a reader may ignore it.
Result<> check_keys(const Json& json, std::span<const std::string_view> known) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    if (value.is_object() && member(value, "must_understand") == false) continue;
    return bad("the key \"{}\" is not known, and must be understood", key);
  }
  return {};
}

Result<Json> parse_attributes(const Json& json) {
  Json attributes = member(json, "attributes");
  if (attributes.is_null()) return Json::object();
  if (!attributes.is_object()) return bad("\"attributes\" is not an object");
  return attributes;
}

Result<std::vector<uint64_t>> parse_extents(const Json& list, const char* key) {
  const auto is_extent = [](const Json& item) { return item.is_number_unsigned(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_extent)) return bad("\"{}\" is not a list of lengths", key);
  if (list.size() > ChunkGrid::kMaxRank) return bad("\"{}\" has more than {} items", key, ChunkGrid::kMaxRank);
  return list.get<std::vector<uint64_t>>();
}

Result<std::vector<uint64_t>> parse_rectilinear(const Json& configuration, const std::vector<uint64_t>& shape,
                                                Array& array) {
  if (const Json kind = member(configuration, "kind"); kind != "inline")
    return fail(EOPNOTSUPP, "{}: a rectilinear chunk grid of kind {} is not supported", kZarrJson, print_json(kind));
  auto grid = RectilinearGrid::parse(member(configuration, "chunk_shapes"), shape);
  if (!grid && grid.error().code == EOPNOTSUPP) return fail(EOPNOTSUPP, "{}: {}", kZarrJson, grid.error().reason);
  if (!grid) return blame(grid.error());
  array.rectilinear = std::move(*grid);
  return array.rectilinear->longest();
}

/// The shape of the chunks. {"name": "regular", "configuration": {...}}; of a rectilinear grid, which is set in
/// `array`, the largest.
Result<std::vector<uint64_t>> parse_chunk_grid(const Json& grid, const std::vector<uint64_t>& shape, Array& array) {
  const Json name = grid.is_object() ? member(grid, "name") : grid;
  if (!name.is_string()) return bad("\"chunk_grid\": {} is not valid", print_json(grid));
  if (name != "regular" && name != "rectilinear")
    return fail(EOPNOTSUPP, "{}: chunk grid {} is not supported", kZarrJson, print_json(name));
  const Json configuration = grid.is_object() ? member(grid, "configuration") : Json();
  if (!configuration.is_object()) return bad("\"chunk_grid\": {} has no configuration", print_json(grid));
  if (name == "rectilinear") return parse_rectilinear(configuration, shape, array);
  CODECFS_ASSIGN(auto chunks, parse_extents(member(configuration, "chunk_shape"), "chunk_shape"));
  if (chunks.size() != shape.size())
    return bad("\"chunk_shape\" has {} dimensions, and \"shape\" {}", chunks.size(), shape.size());
  // Some writers set the chunk length of an empty dimension to 0.
  for (size_t i = 0; i < chunks.size(); ++i)
    if (shape[i] == 0 && chunks[i] == 0) chunks[i] = 1;
  return chunks;
}

/// Sets the type, or why it is not known.
Result<Zarr3Type> parse_type(const Json& json, std::optional<Error>& unreadable) {
  auto type = parse_zarr3_type(member(json, "data_type"));
  if (type) {
    if (type->type.size > kMaxElementBytes)
      return bad("elements of {} bytes, over the limit of {}", type->type.size, kMaxElementBytes);
    return *std::move(type);
  }
  if (type.error().code != EOPNOTSUPP) return blame(type.error());
  unreadable = std::move(type.error());
  return Zarr3Type{};  // raw, of no bytes
}

Result<std::optional<OptionalNames>> parse_dimensions(const Json& json, size_t rank) {
  const Json names = member(json, "dimension_names");
  // A scalar without the member names all of its dimensions: in Zarr v2, xarray opens no store in which it does not.
  if (names.is_null()) return rank == 0 ? std::optional(OptionalNames()) : std::nullopt;
  const auto is_name = [](const Json& item) { return item.is_string() || item.is_null(); };
  if (!names.is_array() || names.size() != rank || !std::ranges::all_of(names, is_name))
    return bad("\"dimension_names\" is not one name or null for each dimension");
  OptionalNames all;
  for (const Json& name : names) all.push_back(name.is_null() ? std::nullopt : std::optional(name.get<std::string>()));
  return all;
}

/// The number that xarray encodes in the attribute _FillValue of an array of floats: base64 of a little-endian double,
/// of complex numbers a pair of them. Other values do not change.
Json decoded_fill_attribute(const DataType& type, const Json& value) {
  if (type.kind != TypeKind::floating && type.kind != TypeKind::complex) return value;
  const bool is_pair = value.is_array() && value.size() == 2;
  const auto decode = [](const Json& text) -> Json {
    if (!text.is_string()) return text;
    const std::optional<double> number = double_in_base64(text.get_ref<const std::string&>());
    return number ? Json(*number) : text;
  };
  return is_pair ? Json::array({decode(value[0]), decode(value[1])}) : decode(value);
}

/// Whether the attribute _FillValue is the fill value of the array.
bool marks_missing(const Variable& variable) {
  for (const Attribute& attribute : variable.attributes) {
    if (attribute.name != kFillAttribute) continue;
    const auto marked = fill_bytes(variable.type, attribute.value);
    return marked && *marked == variable.fill;
  }
  return false;
}

Result<> parse_fill(const Json& json, const Zarr3Type& type, Array& array) {
  Variable& variable = array.variable;
  if (variable.unreadable && type.type.size == 0 && type.type.kind != TypeKind::object) return {};
  const auto given = json.find("fill_value");
  if (given == json.end()) return bad("there is no \"fill_value\"");
  auto fill = zarr3_fill_bytes(type, *given);
  if (!fill) return blame(fill.error());
  variable.fill = std::move(*fill);
  if (type.type.kind == TypeKind::object) {
    const auto is_mark = [](const Attribute& attribute) { return attribute.name == kFillAttribute; };
    if (given->is_string()) variable.fill_value = *given;
    variable.is_fill_unmarked = std::ranges::none_of(variable.attributes, is_mark);
    return {};
  }
  if (marks_missing(variable)) variable.fill_value = fill_json(variable.type, variable.fill);
  return {};
}

Result<Array> parse_unguarded(std::string_view text) {
  CODECFS_ASSIGN(const Json json, parse_file(text));
  if (member(json, "node_type") != "array") return bad("\"node_type\" is not \"array\"");
  CODECFS_TRY(check_keys(json, kArrayKeys));

  Array array;
  Variable& variable = array.variable;
  std::optional<Error> unreadable;
  if (const Json transformers = member(json, "storage_transformers"); !transformers.is_null()) {
    if (!transformers.is_array()) return bad("\"storage_transformers\" is not a list");
    if (!transformers.empty())
      return fail(EOPNOTSUPP, "{}: storage transformer {} is not supported", kZarrJson, print_json(transformers[0]));
  }
  CODECFS_ASSIGN(const Zarr3Type type, parse_type(json, unreadable));
  CODECFS_ASSIGN(const auto shape, parse_extents(member(json, "shape"), "shape"));
  CODECFS_ASSIGN(const auto chunks, parse_chunk_grid(member(json, "chunk_grid"), shape, array));
  auto keys = parse_chunk_keys(member(json, "chunk_key_encoding"));
  if (!keys) return blame(keys.error());
  array.keys = variable.chunk_keys = *keys;

  auto codecs = parse_sharded_codecs(member(json, "codecs"), type.type, shape, chunks);
  if (!codecs) return blame(codecs.error());
  if (array.rectilinear) {
    if (codecs->layout) unreadable = Error{EOPNOTSUPP, "shards in a rectilinear chunk grid are not supported"};
    if (type.type.kind == TypeKind::object)
      unreadable = Error{EOPNOTSUPP, "a rectilinear chunk grid of items of variable length is not supported"};
    codecs->layout.reset();
    codecs->chunks = chunks;
  }
  auto grid = ChunkGrid::make(shape, codecs->chunks);
  if (!grid) return blame(grid.error());
  variable.grid = std::move(*grid);
  array.shards = std::move(codecs->layout);
  if (array.shards) variable.shards = Sharding{array.shards->grid, member(json, "codecs")};
  filters::Zarr3Codecs& inner = codecs->codecs;
  variable.filters = std::move(inner.stages);
  variable.stored_order = std::move(inner.order);
  if (std::ranges::count_if(variable.grid.chunks(), [](uint64_t length) { return length > 1; }) < 2)
    variable.stored_order.clear();  // it changes nothing
  if (!unreadable) unreadable = std::move(inner.unreadable);

  const ByteOrder byte_order = inner.byte_order.value_or(ByteOrder::little);
  variable.type = with_byte_order(type.type, byte_order);
  variable.zarr3_type = variable.type_text = type.name;
  variable.is_zarr3_struct = type.is_struct;
  if (!type.name.empty() && byte_order == ByteOrder::big && type.type.size > 1 && !unreadable)
    unreadable = Error{EOPNOTSUPP, fmt::format("big-endian {} is not supported", type.name)};
  if (type.type.kind == TypeKind::object) {
    variable.object_codec = inner.object_codec.is_null() ? type.object_codec : inner.object_codec;
    array.has_items = true;
    if (inner.object_codec.is_null() && !unreadable)
      unreadable = Error{EOPNOTSUPP, fmt::format("data type {} without its codec vlen-utf8 or vlen-bytes",
                                                 print_json(member(json, "data_type")))};
  } else if (!inner.object_codec.is_null()) {
    return bad("codec {} for a data type of fixed size", print_json(inner.object_codec));
  }

  CODECFS_ASSIGN(const Json attributes, parse_attributes(json));
  for (const auto& [name, value] : attributes.items())
    variable.attributes.push_back(
        {name, name == kFillAttribute ? decoded_fill_attribute(variable.type, value) : value});
  CODECFS_ASSIGN(std::optional<OptionalNames> names, parse_dimensions(json, shape.size()));
  set_names(variable, std::move(names));
  variable.unreadable = unreadable;
  CODECFS_TRY(parse_fill(json, {variable.type, variable.object_codec, type.name}, array));
  CODECFS_TRY(measure_chunks(variable, kZarrJson));
  if (unreadable) variable.unreadable = std::move(unreadable);
  return array;
}

/// What describes the chunks; null if the text is not valid.
Json chunk_members(std::string_view text) {
  auto json = parse_json(text);
  if (!json || !json->is_object()) return {};
  for (const char* key : {"attributes", "dimension_names"}) json->erase(key);
  return std::move(*json);
}

}  // namespace

Result<EntryKind> zarr3_node_type(std::string_view text) try {
  CODECFS_ASSIGN(const Json json, parse_file(text));
  const Json type = member(json, "node_type");
  if (type == "array") return EntryKind::variable;
  if (type == "group") return EntryKind::group;
  return bad("\"node_type\" is {}, neither group nor array", print_json(type));
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", kZarrJson);
}

Result<Array> parse_zarr3_array(std::string_view text) try {
  return parse_unguarded(text);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", kZarrJson);
}

Result<std::vector<Attribute>> parse_zarr3_group(std::string_view text) try {
  CODECFS_ASSIGN(const Json json, parse_file(text));
  if (member(json, "node_type") != "group") return bad("\"node_type\" is not \"group\"");
  CODECFS_TRY(check_keys(json, kGroupKeys));
  CODECFS_ASSIGN(const Json attributes, parse_attributes(json));
  std::vector<Attribute> list;
  for (const auto& [name, value] : attributes.items()) list.push_back({name, value});
  return list;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", kZarrJson);
}

bool describe_same_chunks(std::string_view one, std::string_view other) {
  if (one == other) return true;
  try {
    const Json first = chunk_members(one);
    return !first.is_null() && first == chunk_members(other);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace codecfs::zarr
