#include "fs/nodes/metadata_files.h"

#include <algorithm>
#include <atomic>

#include "backends/api/zarr_texts.h"
#include "filters/core/codec_json.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

template <class T>
Result<T> or_invalid(Result<T> result) {
  if (!result && result.error().code != ENOMEM) result.error().code = EINVAL;
  return result;
}

Result<Json> parse_object(const char* file, std::string_view text) {
  CODECFS_ASSIGN(Json json, parse_json(text));
  if (!json.is_object()) return fail(EINVAL, "{}: no JSON object", file);
  return json;
}

Result<std::vector<std::optional<uint64_t>>> parse_max_shape(const Json& list, const std::vector<uint64_t>& shape) {
  const auto is_limit = [](const Json& item) { return item.is_null() || item.is_number_unsigned(); };
  if (!list.is_array() || list.size() != shape.size() || !std::ranges::all_of(list, is_limit))
    return fail(EINVAL, ".zarray: \"_maxshape\" is {}, not one length or null for each dimension", print_json(list));
  std::vector<std::optional<uint64_t>> limits;
  for (size_t d = 0; d < shape.size(); ++d) {
    limits.push_back(list[d].is_null() ? std::nullopt : std::optional(list[d].get<uint64_t>()));
    if (limits[d] && *limits[d] < shape[d])
      return fail(EINVAL, ".zarray: \"_maxshape\" {} is smaller than the shape {}", print_json(list),
                  print_json(shape));
  }
  return limits;
}

}  // namespace

Json zarray_json(const Variable& variable) {
  Json json = Json::object();
  json["zarr_format"] = 2;
  json["shape"] = variable.grid.shape();
  json["dtype"] = print_dtype(variable.type);
  // For netCDF-C "|S1" is a string of length one.
  if (variable.dimension_paths && variable.type.kind == TypeKind::string && variable.type.size == 1)
    json["dtype"] = ">S1";
  json["chunks"] = variable.grid.chunks();
  json["fill_value"] = variable.fill_value;
  json["order"] = "C";
  json["compressor"] = nullptr;
  json["filters"] = variable.object_codec.is_null() ? Json() : Json::array({variable.object_codec});
  json["dimension_separator"] = ".";
  return json;
}

Json zarray_json(const Variable& variable, std::span<const FilterStage> chain) {
  Json json = zarray_json(variable);
  const filters::ZarrCodecs codecs = filters::print_zarr_codecs(chain);
  json["compressor"] = codecs.compressor;
  if (!codecs.filters.is_array()) return json;
  if (!json["filters"].is_array()) json["filters"] = Json::array();
  for (const Json& codec : codecs.filters) json["filters"].push_back(codec);
  return json;
}

Json zattrs_json(std::span<const Attribute> attributes) {
  Json json = Json::object();
  for (const Attribute& attribute : attributes) append_member(json, attribute.name, attribute.value);
  return json;
}

bool repeats_fill(const Variable& variable, const Attribute& attribute) {
  if (attribute.name != kFillAttribute || variable.fill_value.is_null()) return false;
  const Json& value = attribute.value;
  const auto element = fill_bytes(variable.type, value.is_array() && value.size() == 1 ? value[0] : value);
  return element && *element == variable.fill;
}

Json zattrs_json(const Variable& variable) {
  Json json = zattrs_json(std::span(variable.attributes));
  const bool is_number = variable.type.kind == TypeKind::floating || variable.type.kind == TypeKind::complex;
  if (is_number && !variable.dimension_paths && json.contains(kFillAttribute)) {
    Json& mark = json[kFillAttribute];
    const Json& value = mark.is_array() && mark.size() == 1 ? mark[0] : mark;
    const Json told = with_float_texts(value);
    if (told != value && print_json(told) == print_json(variable.fill_value))
      json.erase(kFillAttribute);
    else
      mark = with_float_texts(mark);
  }
  if (variable.dimensions) json[kDimensions] = *variable.dimensions;
  if (!variable.dimension_paths) return json;
  put_types(json, variable.attributes);
  Json& array = json["_nczarr_array"] = Json{{"dimension_references", *variable.dimension_paths}};
  if (variable.grid.rank() == 0) array["scalar"] = 1;
  array["storage"] = "chunked";
  return json;
}

void put_types(Json& zattrs, std::span<const Attribute> attributes) {
  Json types = Json::object();
  for (const Attribute& attribute : attributes) {
    if (attribute.type.empty()) continue;
    append_member(types, attribute.name, attribute.type);
    if (zattrs.contains(attribute.name))  // the types tell that the texts are numbers
      zattrs[attribute.name] = with_float_texts(attribute.value);
  }
  if (!types.empty()) zattrs["_nczarr_attr"] = Json{{"types", std::move(types)}};
}

void put_members(Json& zattrs, const NczarrMembers& members, bool is_root) {
  Json& group = zattrs["_nczarr_group"];
  if (!group.is_object()) group = Json{{"dimensions", Json::object()}};
  group["arrays"] = members.arrays;
  group["groups"] = members.groups;
  if (is_root) zattrs["_nczarr_superblock"] = Json{{"version", "2.0.0"}};
}

void put_dimensions(Json& zattrs, std::span<const GroupDimension> dimensions) {
  if (dimensions.empty()) return;
  Json list = Json::object();
  for (const GroupDimension& one : dimensions) {
    Json length = one.length;
    if (one.is_unlimited) length = {{"size", one.length}, {"unlimited", 1}};
    append_member(list, one.name, std::move(length));
  }
  zattrs["_nczarr_group"] = Json{{"dimensions", std::move(list)}};
}

void put_limits(Json& zarray, const Variable& variable) {
  if (!variable.max_shape.empty()) {
    Json limits = Json::array();
    for (size_t d = 0; d < variable.max_shape.size(); ++d) {
      const auto& most = variable.max_shape[d];
      // HDF5 has no chunks that are longer than a limit.
      limits.push_back(most ? Json(std::max(*most, variable.grid.chunks()[d])) : Json());
    }
    zarray["_maxshape"] = std::move(limits);
  }
  if (variable.is_fill_unmarked) zarray["_fillmark"] = false;
}

Json zgroup_json() {
  Json json = Json::object();
  json["zarr_format"] = 2;
  return json;
}

Json unreadable_json(const Error& error) {
  Json json = Json::object();
  json["_Error"] = error.reason;
  return json;
}

namespace {
std::atomic<JsonText> text_of_files = JsonText::ascii;
}

void show_utf8_in_files() { text_of_files = JsonText::utf8; }

std::string file_text(const Json& json) { return print_json(json, 4, text_of_files) + "\n"; }

Result<Variable> parse_zarray(std::string_view text, bool with_codecs) {
  CODECFS_ASSIGN(const Json json, parse_object(".zarray", text));
  if (const Json compressor = member(json, "compressor"); !compressor.is_null() && !with_codecs)
    return fail(
        EINVAL,
        ".zarray: \"compressor\" is {}, but chunks are not compressed in this tree: write null, and the filters of the "
        "stored chunks into _Filter or user._Filter, or write to .codecfs/view/encoded",
        print_json(compressor));
  if (member(json, "order") == "F") return fail(EINVAL, ".zarray: \"order\" is \"F\", but chunks are in C order here");
  if (const Json separator = member(json, "dimension_separator"); !separator.is_null() && separator != ".")
    return fail(EINVAL, ".zarray: \"dimension_separator\" is {}, but chunks are named with \".\" here",
                print_json(separator));
  CODECFS_ASSIGN(Variable variable, or_invalid(zarr_texts::parse_zarray(text)));
  if (!variable.filters.empty() && !with_codecs)
    return fail(
        EINVAL,
        ".zarray: \"filters\" has {}, but chunks are not filtered in this tree: write null, and the filters of the "
        "stored chunks into _Filter or user._Filter, or write to .codecfs/view/encoded",
        print_json(variable.filters[0].codec));
  if (variable.unreadable) return fail(EINVAL, ".zarray: {}", variable.unreadable->reason);
  if (const Json limits = member(json, "_maxshape"); !limits.is_null()) {
    CODECFS_ASSIGN(variable.max_shape, parse_max_shape(limits, variable.grid.shape()));
  }
  if (member(json, "_fillmark") == false) variable.is_fill_unmarked = true;
  return variable;
}

Result<WrittenAttributes> parse_zattrs(std::string_view text) {
  CODECFS_ASSIGN(Json json, parse_object(".zattrs", text));
  auto written = written_attributes(std::move(json));
  if (!written) return fail(written.error().code, ".zattrs: {}", written.error().reason);
  return written;
}

Result<WrittenAttributes> written_attributes(Json json) {
  WrittenAttributes written;
  written.dimensions = zarr_texts::nczarr_dimensions(json);
  written.defined = zarr_texts::group_dimensions(json);
  const auto is_name = [](const Json& item) { return item.is_string(); };
  const Json names = member(json, kDimensions);
  const bool are_names = names.is_array() && std::ranges::all_of(names, is_name);
  if (are_names) written.dimensions = names.get<std::vector<std::string>>();
  for (const auto& [name, value] : json.items()) {
    if ((name == kDimensions && are_names) || name == "_NCProperties" || zarr_texts::is_nczarr_key(name)) continue;
    std::string type = zarr_texts::attribute_type(json, name);
    const bool is_float = type.starts_with("<f") || type.starts_with(">f");
    written.attributes.push_back({name, is_float ? with_floats(value) : value, std::move(type)});
  }
  return written;
}

Result<> check_zgroup(std::string_view text) { return or_invalid(zarr_texts::check_zgroup(text)); }

Json attribute_value(std::string_view value, const Json* now) {
  if (now != nullptr && now->is_string()) return std::string(value);
  const bool may_be_object = now != nullptr && now->is_structured();  // texts that are JSON objects are more frequent
  if (Result<Json> json = parse_json(value); json && (may_be_object || !json->is_object())) return *std::move(json);
  return std::string(value);
}

}  // namespace codecfs::fs
