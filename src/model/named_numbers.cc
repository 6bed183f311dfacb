#include "model/named_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace codecfs {
namespace {

using Limits = std::numeric_limits<double>;

bool is_special(const Json& value) { return value.is_number_float() && !std::isfinite(value.get<double>()); }

Json name_of_number(double number) {
  if (std::isnan(number)) return "NaN";
  return number > 0 ? "Infinity" : "-Infinity";
}

/// Whether it is a number, or a list of numbers.
bool has_only_numbers(const Json& value) {
  return value.is_array() ? std::ranges::all_of(value, has_only_numbers) : value.is_number();
}

bool is_float_type(std::string_view type) { return type.size() > 2 && type[1] == 'f'; }

/// Names the numbers. Returns the names of the attributes that are numbers.
std::vector<std::string> name_in(Json& attributes, const DataType* type) {
  std::vector<std::string> names;
  for (auto& [name, value] : attributes.get_ref<Json::object_t&>()) {
    if (!has_special_numbers(value)) continue;
    const bool is_told = name == kFillAttribute && type != nullptr && has_float_fill(*type);
    if (!is_told && has_only_numbers(value)) names.push_back(name);
    value = with_named_numbers(std::move(value));
  }
  return names;
}

/// Where a .zattrs has the types of attributes.
Json& types_in(Json& zattrs) {
  for (const char* key : {"_nczarr_attr", "_NCZARR_ATTR"})
    if (const auto found = zattrs.find(key); found != zattrs.end() && found->is_object())
      if (const auto types = found->find("types"); types != found->end() && types->is_object()) return *types;
  Json& noted = zattrs["_nczarr_attr"];
  if (!noted.is_object()) noted = Json::object();
  return noted["types"] = Json::object();
}

}  // namespace

bool has_special_numbers(const Json& value) {
  return value.is_structured() ? std::ranges::any_of(value, has_special_numbers) : is_special(value);
}

Json with_named_numbers(Json value) {
  if (value.is_structured()) {
    for (Json& item : value) item = with_named_numbers(std::move(item));
  } else if (is_special(value)) {
    return name_of_number(value.get<double>());
  }
  return value;
}

Json with_parsed_numbers(Json value) {
  if (value.is_array()) {
    for (Json& item : value) item = with_parsed_numbers(std::move(item));
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN") return Limits::quiet_NaN();
    if (text == "Infinity") return Limits::infinity();
    if (text == "-Infinity") return -Limits::infinity();
  }
  return value;
}

bool is_same_text(const Json& one, const Json& other) {
  if (!has_special_numbers(one) && !has_special_numbers(other)) return prints_same(one, other);
  return prints_same(with_named_numbers(one), with_named_numbers(other));
}

bool has_float_fill(const DataType& type) { return type.kind == TypeKind::floating || type.kind == TypeKind::complex; }

void name_numbers(Json& zattrs, std::span<const Attribute> attributes, const DataType* type) {
  const std::vector<std::string> names = name_in(zattrs, type);
  if (names.empty()) return;
  std::unordered_map<std::string_view, std::string_view> known;
  for (const Attribute& attribute : attributes)
    if (is_float_type(attribute.type)) known.emplace(attribute.name, attribute.type);
  Json& types = types_in(zattrs);
  for (const std::string& name : names) {
    const auto found = known.find(name);
    Json& noted = types[name];
    if (found != known.end())
      noted = std::string(found->second);
    else if (!noted.is_string() || !is_float_type(noted.get_ref<const std::string&>()))
      noted = "<f8";
  }
}

void name_zarr3_numbers(Json& attributes) {
  const std::vector<std::string> names = name_in(attributes, nullptr);
  if (names.empty()) return;
  Json& noted = attributes[kFloatAttributes];
  if (!noted.is_array()) noted = Json::array();
  for (const std::string& name : names)
    if (std::ranges::find(noted, Json(name)) == noted.end()) noted.push_back(name);
}

void parse_zarr3_numbers(Json& attributes) {
  const auto noted = attributes.find(kFloatAttributes);
  if (noted == attributes.end() || !noted->is_array() || !std::ranges::all_of(*noted, &Json::is_string)) return;
  const Json names = std::move(*noted);
  attributes.erase(noted);
  for (const Json& name : names)
    if (const auto found = attributes.find(name.get_ref<const std::string&>()); found != attributes.end())
      *found = with_parsed_numbers(std::move(*found));
}

}  // namespace codecfs
