#include "fs/metadata_files.h"

namespace codecfs::fs {

Json zarray_json(const Variable& variable) {
  Json json = Json::object();
  json["zarr_format"] = 2;
  json["shape"] = variable.grid.shape();
  json["dtype"] = print_dtype(variable.type);
  json["chunks"] = variable.grid.chunks();
  json["fill_value"] = variable.fill_value;
  json["order"] = "C";
  json["compressor"] = nullptr;
  json["filters"] = variable.object_codec.is_null() ? Json() : Json::array({variable.object_codec});
  json["dimension_separator"] = ".";
  return json;
}

Json zattrs_json(std::span<const Attribute> attributes) {
  Json json = Json::object();
  for (const Attribute& attribute : attributes) append_member(json, attribute.name, attribute.value);
  return json;
}

Json zattrs_json(const Variable& variable) {
  Json json = zattrs_json(std::span(variable.attributes));
  if (variable.dimensions) json["_ARRAY_DIMENSIONS"] = *variable.dimensions;
  return json;
}

Json zgroup_json() {
  Json json = Json::object();
  json["zarr_format"] = 2;
  return json;
}

std::string file_text(const Json& json) { return print_json(json, 4) + "\n"; }

}  // namespace codecfs::fs
