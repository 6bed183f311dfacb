#include "fs/views/zarr3_files.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/endian.h"
#include "filters/core/zarr3_codecs.h"
#include "fs/views/metadata_files.h"
#include "model/base64.h"
#include "model/chunk_keys.h"
#include "model/json.h"
#include "model/zarr3_type.h"

namespace codecfs::fs {
namespace {

constexpr const char* kFillValue = "_FillValue";

/// The value of an attribute that may be a list of one.
const Json& single(const Json& value) { return value.is_array() && value.size() == 1 ? value[0] : value; }

std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Json base64_of_double(double number) {
  std::byte bytes[sizeof number];
  store_le(bytes, std::bit_cast<uint64_t>(number));
  return encode_base64(bytes);
}

std::optional<double> double_in_base64(const Json& text) {
  if (!text.is_string()) return std::nullopt;
  const auto bytes = decode_base64(text.get_ref<const std::string&>());
  if (!bytes || bytes->size() != sizeof(double)) return std::nullopt;
  return std::bit_cast<double>(load_le<uint64_t>(bytes->data()));
}

/// As attributes of this type print it.
Json number_of_size(double number, uint64_t size) {
  return size == sizeof(float) ? shortest_double(static_cast<float>(number)) : number;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
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
      append_member(json, kFillValue, *std::move(printed));
  };
  bool has_fill = false;
  for (const Attribute& attribute : variable.attributes) {
    if (attribute.name == kFillValue) {
      has_fill = true;
      put_fill(attribute.value);
    } else {
      append_member(json, attribute.name, attribute.value);
    }
  }
  // In Zarr v2, xarray masks what equals the fill value. Zero is Zarr's default and marks nothing.
  if (!has_fill && !variable.fill_value.is_null() && !is_zero(variable.fill)) put_fill(variable.fill_value);
  if (variable.unreadable_attributes) json.update(unreadable_json(*variable.unreadable_attributes));
  return json;
}

Json node_json(const char* type) {
  Json json = Json::object();
  json["zarr_format"] = 3;
  json["node_type"] = type;
  return json;
}

}  // namespace

Json zarr3_group_json(const Result<std::vector<Attribute>>& attributes) {
  Json json = node_json("group");
  json["attributes"] = attributes ? zattrs_json(std::span(*attributes)) : unreadable_json(attributes.error());
  return json;
}

Json zarr3_group_json(const Result<std::vector<Attribute>>& attributes, Json below) {
  Json json = zarr3_group_json(attributes);
  json["consolidated_metadata"] = {{"kind", "inline"}, {"must_understand", false}};
  json["consolidated_metadata"]["metadata"] = std::move(below);
  return json;
}

Result<Json> zarr3_array_json(const Variable& described, std::span<const FilterStage> chain) {
  CODECFS_ASSIGN(Json data_type, print_zarr3_type(described.type, described.object_codec));
  CODECFS_ASSIGN(Json codecs, filters::print_zarr3_codecs(chain, described.type, described.object_codec));
  Json json = node_json("array");
  json["shape"] = described.grid.shape();
  json["data_type"] = std::move(data_type);
  json["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", described.grid.chunks()}}}};
  json["chunk_key_encoding"] = print_chunk_keys({});
  json["fill_value"] = zarr3_fill_json({described.type, described.object_codec, {}}, fill_element(described));
  json["codecs"] = std::move(codecs);
  json["attributes"] = attributes_json(described);
  if (described.dimensions) json["dimension_names"] = *described.dimensions;
  return json;
}

std::optional<Json> print_fill_attribute(const Variable& variable, const Json& value) {
  const Json& fill = single(value);
  switch (variable.type.kind) {
    case TypeKind::floating: {
      const std::optional<double> number = number_in(fill);
      if (!number) return std::nullopt;
      return base64_of_double(*number);
    }
    case TypeKind::complex: {
      if (!fill.is_array() || fill.size() != 2) return std::nullopt;
      const std::optional<double> real = number_in(fill[0]);
      const std::optional<double> imaginary = number_in(fill[1]);
      if (!real || !imaginary) return std::nullopt;
      return Json::array({base64_of_double(*real), base64_of_double(*imaginary)});
    }
    case TypeKind::boolean:
      if (!fill.is_boolean() && !fill.is_number()) return std::nullopt;
      return fill;
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
      if (!fill.is_number()) return std::nullopt;
      return fill;
    case TypeKind::object:
      if (!fill.is_string() || *variable.object_codec != Json{{"id", "vlen-utf8"}}) return std::nullopt;
      return fill;
    default: return std::nullopt;
  }
}

std::optional<Json> parse_fill_attribute(const Variable& variable, const Json& value) {
  const uint64_t size = variable.type.size;
  switch (variable.type.kind) {
    case TypeKind::floating: {
      const std::optional<double> number = double_in_base64(value);
      if (!number) return std::nullopt;
      return number_of_size(*number, size);
    }
    case TypeKind::complex: {
      if (!value.is_array() || value.size() != 2) return std::nullopt;
      const std::optional<double> real = double_in_base64(value[0]);
      const std::optional<double> imaginary = double_in_base64(value[1]);
      if (!real || !imaginary) return std::nullopt;
      return Json::array({number_of_size(*real, size / 2), number_of_size(*imaginary, size / 2)});
    }
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
      if (!value.is_boolean() && !value.is_number()) return std::nullopt;
      return value;
    case TypeKind::object:
      if (!value.is_string()) return std::nullopt;
      return value;
    default: return std::nullopt;
  }
}

}  // namespace codecfs::fs
