// The names of dimensions, and chunks of fill values.

#include "model/variable.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "base/endian.h"
#include "model/fill.h"
#include "model/json.h"

namespace codecfs {

namespace {

/// An empty list if there is no such attribute, or it has another value.
Json phony_list(std::span<const Attribute> attributes) {
  constexpr size_t kLongest = size_t{1} << 20;  // bytes
  const auto attribute = std::ranges::find(attributes, kPhonyDimensions, &Attribute::name);
  if (attribute == attributes.end() || !attribute->value->is_string()) return Json::array();
  const auto& text = attribute->value->get_ref<const std::string&>();
  Result<Json> list = text.size() > kLongest ? Json() : parse_json(text);
  return list && list->is_array() ? *std::move(list) : Json::array();
}

}  // namespace

Attribute phony_attribute(const OptionalNames& phony) {
  Json list = Json::array();
  for (const std::optional<std::string>& name : phony) list.push_back(name ? Json(*name) : Json());
  return {kPhonyDimensions, Json(print_json(list))};
}

OptionalNames named_dimensions(std::span<const std::string> names, std::span<const Attribute> attributes) {
  OptionalNames named(names.begin(), names.end());
  const Json list = phony_list(attributes);
  if (list.size() != names.size()) return named;
  for (size_t d = 0; d < names.size(); ++d)
    if (!list[d].is_null() && list[d] != names[d]) return named;
  for (size_t d = 0; d < names.size(); ++d)
    if (!list[d].is_null()) named[d].reset();
  return named;
}

std::set<std::string> phony_names(std::span<const Attribute> attributes) {
  std::set<std::string> names;
  for (const Json& name : phony_list(attributes))
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

std::optional<Attribute> stored_types(std::span<const Attribute> attributes, const JsonValue* type) {
  Json of_attributes = Json::object();
  for (const Attribute& attribute : attributes)
    if (!attribute.stored_type.is_null()) append_member(of_attributes, attribute.name, attribute.stored_type);
  if (of_attributes.empty() && (type == nullptr || type->is_null())) return std::nullopt;
  Json types = {{"attributes", std::move(of_attributes)}};
  if (type != nullptr) types["type"] = *type;
  return Attribute{kStoredTypes, Json(print_json(types))};
}

Json parse_stored_types(const Json& value) {
  constexpr size_t kLongest = size_t{16} << 20;  // bytes
  const auto* const text = value.get_ptr<const std::string*>();
  if (text == nullptr || text->size() > kLongest) return Json::object();
  Result<Json> types = parse_json(*text);
  return types && types->is_object() ? *std::move(types) : Json::object();
}

std::vector<std::optional<uint64_t>> noted_limits(const Variable& variable) {
  const std::vector<uint64_t>& shape = variable.grid.shape();
  const auto found = std::ranges::find(variable.attributes, kStoredTypes, &Attribute::name);
  if (found == variable.attributes.end()) return {};
  const Json noted = member(parse_stored_types(found->value), "max_shape");
  if (!noted.is_array() || noted.size() != shape.size()) return {};
  std::vector<std::optional<uint64_t>> limits(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (noted[d].is_number_unsigned())
      limits[d] = std::max(noted[d].get<uint64_t>(), shape[d]);  // a program may have made it longer
    else if (!noted[d].is_null())
      return {};
  }
  return limits;
}

std::optional<OptionalNames> names_of(const Variable& variable) {
  if (!variable.dimensions) return variable.some_dimensions;
  return OptionalNames(variable.dimensions->begin(), variable.dimensions->end());
}

void set_names(Variable& variable, std::optional<OptionalNames> names) {
  variable.dimensions.reset();
  variable.some_dimensions.reset();
  if (names && !has_unnamed(*names)) {
    variable.dimensions.emplace();
    for (std::optional<std::string>& name : *names) variable.dimensions->push_back(*std::move(name));
  } else {
    variable.some_dimensions = std::move(names);
  }
}

bool has_unnamed(const OptionalNames& names) {
  return std::ranges::any_of(names, [](const auto& name) { return !name; });
}

OptionalNames distinct_names(std::span<const std::string> names) {
  OptionalNames distinct;
  std::set<std::string_view> known;
  for (const std::string& name : names)
    distinct.push_back(known.insert(name).second ? std::optional(name) : std::nullopt);
  return distinct;
}

bool has_repeated_names(const Variable& variable) {
  return variable.dimensions && variable.dimensions->size() > 1 && has_unnamed(distinct_names(*variable.dimensions));
}

void make_names_distinct(Variable& variable) {
  if (!has_repeated_names(variable)) return;
  OptionalNames distinct = distinct_names(*variable.dimensions);
  variable.attributes.push_back({kDimensions, Json(*variable.dimensions)});
  set_names(variable, std::move(distinct));
}

std::optional<OptionalNames> complete_names(const std::optional<OptionalNames>& names,
                                            std::span<const std::string> listed) {
  const auto agree = [](const std::optional<std::string>& name, const std::string& other) {
    return !name || *name == other;
  };
  if (names && !std::ranges::equal(*names, listed, agree)) return std::nullopt;
  return OptionalNames(listed.begin(), listed.end());
}

std::optional<OptionalNames> all_names_of(const Variable& variable) {
  if (variable.dimensions) return names_of(variable);
  const auto found = std::ranges::find(variable.attributes, kDimensions, &Attribute::name);
  const bool are_names = found != variable.attributes.end() && found->value->is_array() &&
                         found->value->size() == variable.grid.rank() &&
                         std::ranges::all_of(*found->value, [](const Json& item) { return item.is_string(); });
  if (!are_names) return names_of(variable);
  const auto listed = found->value->get<std::vector<std::string>>();
  std::optional<OptionalNames> all = complete_names(variable.some_dimensions, listed);
  return all ? all : names_of(variable);
}

void repeat_element(Bytes element, MutableBytes target) {
  if (target.empty()) return;
  if (std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; })) {
    std::memset(target.data(), 0, target.size());
    return;
  }
  // Copy from the filled part, which doubles each time.
  size_t done = std::min(element.size(), target.size());
  std::memcpy(target.data(), element.data(), done);
  while (done < target.size()) {
    const size_t count = std::min(done, target.size() - done);
    std::memcpy(target.data() + done, target.data(), count);
    done += count;
  }
}

namespace {

/// vlen-utf8: the number of items as LE32, then the items.
Result<Buffer> make_vlen_fill(const Variable& variable) {
  static constexpr std::byte kEmptyString[4] = {};
  const Bytes element = variable.fill.empty() ? Bytes(kEmptyString) : Bytes(variable.fill);
  const uint64_t count = variable.grid.elements_per_chunk();
  uint64_t size = 0;
  if (count > UINT32_MAX || __builtin_mul_overflow(count, element.size(), &size) || size > SIZE_MAX - 4)
    return fail(ENOMEM, "a chunk of {} fill values is too large", count);
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size + 4));
  store_le(buffer.data(), static_cast<uint32_t>(count));
  repeat_element(element, buffer.mutable_bytes().subspan(4));
  return buffer;
}

}  // namespace

Result<Buffer> make_fill_chunk(const Variable& variable) {
  if (variable.type.kind == TypeKind::object) {
    const auto id =
        variable.object_codec->is_object() ? variable.object_codec->find("id") : variable.object_codec->end();
    if (id != variable.object_codec->end() && *id == "vlen-utf8") return make_vlen_fill(variable);
    return fail(EOPNOTSUPP, "no chunk of fill can be made for object codec {}", print_json(variable.object_codec));
  }
  uint64_t size = 0;
  if (!variable.fill.empty() && variable.fill.size() != variable.type.size)
    return fail(EINVAL, "a fill of {} bytes for elements of {}", variable.fill.size(), variable.type.size);
  if (__builtin_mul_overflow(variable.grid.elements_per_chunk(), variable.type.size, &size))
    return fail(ENOMEM, "a chunk of {} elements is too large", variable.grid.elements_per_chunk());
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
  repeat_element(variable.fill, buffer.mutable_bytes());
  return buffer;
}

}  // namespace codecfs
