#include "backends/zarr/metadata/nczarr.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

/// netCDF's default fill value of doubles (NC_FILL_DOUBLE of netcdf.h), and as NCZarr prints it ("%lg").
constexpr double kDoubleFill = 9.9692099683868690e+36;
constexpr double kPrintedDoubleFill = 9.96921e+36;

/// The member of an object; null if it is missing.
const Json* object_member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? nullptr : &*found;
}

/// The first of two keys that exists.
const Json* either(const Json& object, const char* key, const char* other) {
  for (const char* name : {key, other})
    if (const auto found = object.find(name); found != object.end()) return &*found;
  return nullptr;
}

std::optional<std::vector<std::string>> references_of(const Json& array) {
  const Json* list = either(array, "dimension_references", "dimrefs");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  if (!std::ranges::all_of(*list, [](const Json& reference) { return reference.is_string(); })) return std::nullopt;
  return list->get<std::vector<std::string>>();
}

bool says_yes(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && (*found == 1 || *found == true || *found == "1");
}

bool says_scalar(const Json& array) {
  const auto storage = array.find("storage");
  if (storage != array.end() && *storage == "scalar") return true;
  return says_yes(array, "scalar");
}

std::vector<std::string> names_listed_in(const Json* list) {
  std::vector<std::string> names;
  if (list == nullptr || !list->is_array()) return names;
  for (const Json& name : *list)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

std::vector<NczarrDimension> dimensions_in(const Json* object) {
  std::vector<NczarrDimension> dimensions;
  if (object == nullptr || !object->is_object()) return dimensions;
  for (const auto& [name, value] : object->items()) {
    const bool has_more = value.is_object();
    const Json size = has_more ? value.value("size", Json()) : value;
    if (!size.is_number_unsigned()) continue;
    dimensions.push_back(
        {.name = name, .length = size.get<uint64_t>(), .is_unlimited = has_more && says_yes(value, "unlimited")});
  }
  return dimensions;
}

const char* group_key(NczarrForm form) { return form == NczarrForm::upper_keys ? "_NCZARR_GROUP" : "_nczarr_group"; }
const char* array_key(NczarrForm form) { return form == NczarrForm::upper_keys ? "_NCZARR_ARRAY" : "_nczarr_array"; }

/// netCDF-C's own object in a file; created if it is missing.
Json& own_object(Json& file, NczarrForm form, const char* key) {
  if (form == NczarrForm::objects) return file;
  Json& own = file[key];
  if (!own.is_object()) own = Json::object();
  return own;
}

/// netCDF-C also records a type for its own attributes.
void note_own_type(Json& zattrs, const char* key) {
  Json& noted = zattrs["_nczarr_attr"];
  if (!noted.is_object()) noted = Json::object();
  Json& types = noted["types"];
  if (!types.is_object()) types = Json::object();
  for (const char* name : {key, "_nczarr_attr"}) types[name] = "|J0";
}

const char* name_there(const Json& object, const char* name, const char* other, NczarrForm form) {
  if (object.contains(name)) return name;
  if (object.contains(other)) return other;
  return form == NczarrForm::attributes ? name : other;
}

/// Reads a number from JSON without NaN and 1.0.
Json as_float(const Json& value) {
  if (value.is_number_integer()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return value;
}

bool has_netcdf_type(const DataType& type, NczarrForm form) {
  const bool is_early = form == NczarrForm::objects || form == NczarrForm::upper_keys;
  const bool is_swapped = form != NczarrForm::attributes && type.order == ByteOrder::big;
  switch (type.kind) {
    case TypeKind::signed_int:
    case TypeKind::unsigned_int: return !is_swapped;
    case TypeKind::floating: return !is_swapped && (type.size == 4 || type.size == 8);
    case TypeKind::string: return !is_early && type.size > 0;
    default: return false;
  }
}

}  // namespace

NczarrDimension* NczarrGroup::find(std::string_view dimension) {
  const auto found = std::ranges::find(dimensions, dimension, &NczarrDimension::name);
  return found == dimensions.end() ? nullptr : &*found;
}

std::optional<NczarrArray> parse_nczarr(const Json& zarray, const Json& zattrs, const Json& nczvar) {
  NczarrArray result;
  const Json* array = object_member(zattrs, array_key(NczarrForm::attributes));
  if (array == nullptr && (array = object_member(zarray, array_key(NczarrForm::lower_keys)))) {
    result.form = NczarrForm::lower_keys;
  } else if (array == nullptr && (array = object_member(zarray, array_key(NczarrForm::upper_keys)))) {
    result.form = NczarrForm::upper_keys;
  } else if (array == nullptr && nczvar.is_object()) {
    array = &nczvar;
    result.form = NczarrForm::objects;
  }
  if (array == nullptr) return std::nullopt;
  result.has_u1_characters = result.form == NczarrForm::upper_keys || result.form == NczarrForm::objects;
  // The byte-swapping code exists since 4.8.0, but was not compiled before 4.9.3 (zwalk.c, transfern). Existing stores
  // were written on little-endian machines.
  result.has_wrong_big_endian = result.form != NczarrForm::attributes;
  result.references = references_of(*array);
  if (result.references) {
    result.dimensions.emplace();
    for (const std::string& path : *result.references)
      result.dimensions->push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0: the whole path
  }
  result.is_scalar = says_scalar(*array);
  return result;
}

std::optional<NczarrGroup> parse_nczarr_group(const Json& zgroup, const Json& zattrs, const Json& nczgroup) {
  NczarrGroup result;
  const Json* group = object_member(zattrs, group_key(NczarrForm::attributes));
  if (group == nullptr && (group = object_member(zgroup, group_key(NczarrForm::lower_keys)))) {
    result.form = NczarrForm::lower_keys;
  } else if (group == nullptr && (group = object_member(zgroup, group_key(NczarrForm::upper_keys)))) {
    result.form = NczarrForm::upper_keys;
  } else if (group == nullptr && nczgroup.is_object()) {
    group = &nczgroup;
    result.form = NczarrForm::objects;
  }
  if (group == nullptr) return std::nullopt;
  result.dimensions = dimensions_in(either(*group, "dimensions", "dims"));
  result.arrays = names_listed_in(either(*group, "arrays", "vars"));
  const auto groups = group->find("groups");
  result.groups = names_listed_in(groups == group->end() ? nullptr : &*groups);
  return result;
}

const char* nczarr_group_file(NczarrForm form) {
  if (form == NczarrForm::attributes) return ".zattrs";
  return form == NczarrForm::objects ? ".nczgroup" : ".zgroup";
}

const char* nczarr_array_file(NczarrForm form) {
  if (form == NczarrForm::attributes) return ".zattrs";
  return form == NczarrForm::objects ? ".nczvar" : ".zarray";
}

void put_nczarr_group(Json& file, const NczarrGroup& group) {
  Json dimensions = Json::object();
  for (const NczarrDimension& dimension : group.dimensions) {
    Json length = dimension.length;
    if (dimension.is_unlimited) length = {{"size", dimension.length}, {"unlimited", 1}};
    append_member(dimensions, dimension.name, std::move(length));
  }
  Json& own = own_object(file, group.form, group_key(group.form));
  own[name_there(own, "dimensions", "dims", group.form)] = std::move(dimensions);
  own[name_there(own, "arrays", "vars", group.form)] = group.arrays;
  own["groups"] = group.groups;
  if (group.form == NczarrForm::attributes) note_own_type(file, group_key(group.form));
}

void put_nczarr_array(Json& file, NczarrForm form, std::span<const std::string> references) {
  Json& own = own_object(file, form, array_key(form));
  Json list = Json::array();
  for (const std::string& reference : references) list.push_back(reference);
  own[name_there(own, "dimension_references", "dimrefs", form)] = std::move(list);
  if (references.empty() && form == NczarrForm::attributes) own["scalar"] = 1;
  if (!own.contains("storage"))
    own["storage"] = references.empty() && form != NczarrForm::attributes ? "scalar" : "chunked";
  if (form == NczarrForm::attributes) note_own_type(file, array_key(form));
}

bool can_be_nczarr(const Variable& variable, NczarrForm form) {
  if (!has_netcdf_type(variable.type, form)) return false;
  // netCDF-C stores the fill value of text unencoded, other readers expect base64. Only the empty text is the same.
  const bool is_text = variable.type.kind == TypeKind::string;
  if (is_text && std::ranges::any_of(variable.fill, [](std::byte byte) { return byte != std::byte{0}; })) return false;
  if (form == NczarrForm::attributes) return true;
  // Earlier releases do not support empty dimensions, nor chunks that are longer than them.
  const ChunkGrid& grid = variable.grid;
  for (size_t i = 0; i < grid.rank(); ++i)
    if (grid.shape()[i] == 0 || grid.chunks()[i] > grid.shape()[i]) return false;
  return true;
}

bool is_netcdf_name(std::string_view name) {
  if (name.empty() || name.size() > 256 || !is_utf8(name)) return false;
  const auto is_plain = [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '/'; };
  const auto first = static_cast<unsigned char>(name.front());
  const bool starts_well = first >= 0x80 || first == '_' || std::isalnum(first) != 0;
  return starts_well && name.back() != ' ' && std::ranges::all_of(name, is_plain);
}

Json typed_attribute(const Json& value, const Json* type) {
  const std::string name = type != nullptr && type->is_string() ? type->get_ref<const std::string&>() : "";
  if (name.size() < 2) return value;
  if ((name[1] == 'S' || name[1] == 'U') && (value.is_number() || value.is_boolean())) return print_json(value);
  if (name[1] != 'f') return value;
  if (!value.is_array()) return as_float(value);
  Json list = Json::array();
  for (const Json& item : value) list.push_back(as_float(item));
  return list;
}

const Json* attribute_types(const Json& zattrs, const Json& nczattr) {
  for (const char* key : {"_nczarr_attr", "_NCZARR_ATTR"}) {
    const Json* noted = object_member(zattrs, key);
    if (noted != nullptr && object_member(*noted, "types") != nullptr) return object_member(*noted, "types");
  }
  return object_member(nczattr, "types");
}

const Json* attribute_type(const Json* types, std::string_view name) {
  if (types == nullptr) return nullptr;
  const auto found = types->find(name);
  return found == types->end() ? nullptr : &*found;
}

Json meant_fill(const DataType& type, const Json& fill_value) {
  const bool is_default = type.kind == TypeKind::floating && type.size == 8 && fill_value.is_number_float() &&
                          fill_value.get<double>() == kPrintedDoubleFill;
  return is_default ? Json(kDoubleFill) : fill_value;
}

bool is_nczarr_key(std::string_view name) {
  return name.starts_with("_nczarr_") || name.starts_with("_NCZARR_") || name == "_NCProperties";
}

}  // namespace codecfs::zarr
