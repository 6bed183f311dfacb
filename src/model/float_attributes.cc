#include "model/float_attributes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/json.h"

namespace codecfs {
namespace {

constexpr size_t kLongestList = size_t{1} << 20;  // bytes

std::optional<double> named_number(const Json& value) {
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

bool is_bare(const Json& value) { return value.is_number_float() && !std::isfinite(value.get<double>()); }

template <class Is>
bool has_any(const Json& value, const Is& is) {
  if (!value.is_structured()) return is(value);
  return std::ranges::any_of(value, [&](const Json& item) { return has_any(item, is); });
}

template <class Change>
Json changed(const Json& value, const Change& change) {
  if (!value.is_structured()) return change(value);
  Json made = value;
  for (Json& item : made) item = changed(item, change);
  return made;
}

}  // namespace

Json with_float_texts(const Json& value) {
  return changed(value, [](const Json& item) -> Json {
    if (!is_bare(item)) return item;
    const auto number = item.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  });
}

Json with_floats(const Json& value) {
  return changed(value, [](const Json& item) -> Json {
    const std::optional<double> number = named_number(item);
    return number ? Json(*number) : item;
  });
}

std::set<std::string> float_attributes(std::span<const Attribute> attributes) {
  std::set<std::string> names;
  const auto list = std::ranges::find(attributes, kFloatAttributes, &Attribute::name);
  if (list == attributes.end() || !list->value->is_string()) return names;
  const auto& text = list->value->get_ref<const std::string&>();
  const Result<Json> parsed = text.size() > kLongestList ? Json() : parse_json(text);
  if (!parsed || !parsed->is_array()) return names;
  for (const Json& name : *parsed)
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

void tell_floats(std::vector<Attribute>& attributes, std::string_view except) {
  std::set<std::string> names = float_attributes(attributes);
  std::erase_if(names, [&](const std::string& name) {
    const auto named = std::ranges::find(attributes, name, &Attribute::name);
    return named == attributes.end() || !has_any(*named->value, [](const Json& item) { return !!named_number(item); });
  });
  for (Attribute& attribute : attributes) {
    if (attribute.name == except || !has_any(*attribute.value, is_bare)) continue;
    const bool has_text = has_any(*attribute.value, [](const Json& item) { return !!named_number(item); });
    if (has_text && !names.contains(attribute.name)) continue;
    attribute.value = with_float_texts(attribute.value);
    names.insert(attribute.name);
  }
  std::erase_if(attributes, [](const Attribute& attribute) { return attribute.name == kFloatAttributes; });
  if (!names.empty()) attributes.push_back({kFloatAttributes, Json(print_json(Json(names)))});
}

void restore_floats(std::vector<Attribute>& attributes) {
  const std::set<std::string> names = float_attributes(attributes);
  for (Attribute& attribute : attributes)
    if (names.contains(attribute.name)) attribute.value = with_floats(attribute.value);
  std::erase_if(attributes, [](const Attribute& attribute) { return attribute.name == kFloatAttributes; });
}

}  // namespace codecfs
