#include "backends/zarr/metadata/nczarr.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

/// The number of four hexadecimal digits at a place in a text.
char32_t code_at(std::string_view text, size_t at) {
  uint32_t code = 0;
  std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
  return code;
}

/// Replaces \uXXXX by the character, except for control characters.
std::string with_plain_characters(std::string_view json) {
  constexpr size_t kEscape = 6;  // characters of \uXXXX
  std::string text;
  for (size_t at = 0; at < json.size();) {
    const bool is_escape = json[at] == '\\' && at + 1 < json.size();
    if (!is_escape || json[at + 1] != 'u' || at + kEscape > json.size()) {
      text += json.substr(at, is_escape ? 2 : 1);
      at += is_escape ? 2 : 1;
      continue;
    }
    char32_t code = code_at(json, at + 2);
    size_t length = kEscape;
    if (code >= 0xD800 && code < 0xDC00 && at + 2 * kEscape <= json.size()) {
      code = 0x10000 + ((code - 0xD800) << 10) + (code_at(json, at + kEscape + 2) - 0xDC00);
      length *= 2;
    }
    if (code < 0x7F)
      text += json.substr(at, length);
    else
      utf8_append(text, code);
    at += length;
  }
  return text;
}

bool has_floats(const Json& value) {
  if (!value.is_array()) return value.is_number_float();
  return std::ranges::all_of(value, [](const Json& item) { return item.is_number(); }) &&
         std::ranges::any_of(value, [](const Json& item) { return item.is_number_float(); });
}

/// Numbers that JSON does not have, as texts.
Json with_named_numbers(Json value) {
  if (value.is_array()) {
    for (Json& item : value) item = with_named_numbers(std::move(item));
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
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

/// NC_FILL_BYTE and so on of netcdf.h.
Json default_fill(const DataType& type) {
  const bool is_signed = type.kind == TypeKind::signed_int;
  switch (type.kind) {
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
      switch (type.size) {
        case 1: return is_signed ? Json(-127) : Json(255);
        case 2: return is_signed ? Json(-32767) : Json(65535);
        case 4: return is_signed ? Json(-2147483647) : Json(4294967295);
        default: return is_signed ? Json(int64_t{-9223372036854775806}) : Json(uint64_t{18446744073709551614U});
      }
    case TypeKind::floating:
      return type.size == sizeof(float) ? Json(double{9.9692099683868690e+36F}) : Json(kDoubleFill);
    default: return Json("");
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

void put_superblock(Json& zattrs) {
  zattrs["_nczarr_superblock"] = Json{{"version", "2.0.0"}};
  note_own_type(zattrs, "_nczarr_superblock");
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

Result<> check_nczarr(const Variable& variable, NczarrForm form) {
  if (!has_netcdf_type(variable.type, form))
    return fail(EINVAL, "netCDF has no elements of dtype {} in NCZarr, and refuses a store with one such array",
                print_json(print_dtype(variable.type)));
  if (variable.type.kind == TypeKind::string && !text_fill(variable))
    return fail(EINVAL, "netCDF stores fill values of text as they are, and this one has bytes that are not ASCII");
  if (form == NczarrForm::attributes) return {};
  // Earlier releases do not support empty dimensions, nor chunks that are longer than them.
  const ChunkGrid& grid = variable.grid;
  for (size_t i = 0; i < grid.rank(); ++i)
    if (grid.shape()[i] == 0 || grid.chunks()[i] > grid.shape()[i])
      return fail(EINVAL, "the netCDF of this store has no chunks of {} elements in a dimension of {}",
                  grid.chunks()[i], grid.shape()[i]);
  return {};
}

std::optional<std::string> text_fill(const Variable& variable) {
  std::string text(reinterpret_cast<const char*>(variable.fill.data()), variable.fill.size());
  text.resize(text.find_last_not_of('\0') + 1);
  const auto is_plain = [](char c) { return c > 0 && c < 0x7f; };
  return std::ranges::all_of(text, is_plain) ? std::optional(std::move(text)) : std::nullopt;
}

bool is_default_fill(const DataType& type, std::span<const std::byte> fill) {
  if (type.kind == TypeKind::string)
    return std::ranges::all_of(fill, [](std::byte byte) { return byte == std::byte{0}; });
  const auto bytes = has_netcdf_type(type, NczarrForm::attributes) ? fill_bytes(type, default_fill(type))
                                                                   : Result<std::vector<std::byte>>();
  return bytes && std::ranges::equal(*bytes, fill);
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

std::string known_attribute_type(const Json* type) {
  if (type == nullptr || !type->is_string()) return {};
  const auto& name = type->get_ref<const std::string&>();
  if (name.size() < 3 || name[1] == 'J') return {};
  if (name[1] == 'U' || name == ">S1") return ">S1";  // "<U1" up to 4.9.0
  if (name[1] == 'S') return "|" + name.substr(1);
  return parse_dtype(name) ? name : std::string();
}

void put_typed_attribute(Json& zattrs, const Attribute& attribute) {
  Json value = attribute.value;
  if (value.is_null() && !attribute.type.empty()) value = attribute.type == ">S1" ? Json("") : Json::array();
  // netCDF-C takes numbers for integers that are none, if no type is recorded.
  const std::string type = attribute.type.empty() && has_floats(value) ? "<f8" : attribute.type;
  zattrs[attribute.name] = type.starts_with("<f") ? with_named_numbers(std::move(value)) : std::move(value);
  if (type.empty()) return;
  Json& noted = zattrs["_nczarr_attr"];
  if (!noted.is_object()) noted = Json::object();
  Json& types = noted["types"];
  if (!types.is_object()) types = Json::object();
  types[attribute.name] = type;
}

const Json* attribute_type(const Json* types, std::string_view name) {
  if (types == nullptr) return nullptr;
  const auto found = types->find(name);
  return found == types->end() ? nullptr : &*found;
}

Json meant_fill(const DataType& type, const Json& fill_value) {
  if (fill_value.is_array() && fill_value.size() == 1) return meant_fill(type, fill_value[0]);
  const bool is_default = type.kind == TypeKind::floating && type.size == 8 && fill_value.is_number_float() &&
                          fill_value.get<double>() == kPrintedDoubleFill;
  return is_default ? Json(kDoubleFill) : fill_value;
}

std::string print_file(const Json& json, int indent) {
  std::string text = print_json(json, indent);
  const bool is_netcdf = std::ranges::any_of(json.items(), [](const auto& item) { return is_nczarr_key(item.key()); });
  return is_netcdf ? with_plain_characters(text) : text;
}

bool is_nczarr_key(std::string_view name) {
  return name.starts_with("_nczarr_") || name.starts_with("_NCZARR_") || name == "_NCProperties";
}

}  // namespace codecfs::zarr
