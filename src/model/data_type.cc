// Parses and prints numpy's type names.

#include "model/data_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "model/json.h"
#include "model/limits.h"

namespace codecfs {
namespace {

/// Takes 25 from "25s]"; none if there is no number or it is too large.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || number > kMaxTypeBytes) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool is_time_unit(std::string_view unit) {
  static constexpr std::array<std::string_view, 13> kUnits = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                                              "ms", "us", "ns", "ps", "fs", "as"};
  if (!unit.empty() && unit[0] >= '0' && unit[0] <= '9') {
    const auto number = take_number(unit);
    if (!number || *number == 0) return false;
  }
  return std::ranges::find(kUnits, unit) != kUnits.end();
}

bool is_size_of(TypeKind kind, uint64_t size) {
  switch (kind) {
    case TypeKind::boolean: return size == 1;
    case TypeKind::signed_int:
    case TypeKind::unsigned_int: return size == 1 || size == 2 || size == 4 || size == 8;
    case TypeKind::floating: return size == 2 || size == 4 || size == 8 || size == 12 || size == 16;
    case TypeKind::complex: return size == 8 || size == 16 || size == 24 || size == 32;
    case TypeKind::timedelta:
    case TypeKind::datetime: return size == 8;
    case TypeKind::string:
    case TypeKind::raw:
    case TypeKind::unicode: return size <= kMaxTypeBytes;
    default: return false;
  }
}

bool has_byte_order(TypeKind kind, uint64_t size) {
  switch (kind) {
    case TypeKind::string:
    case TypeKind::raw:
    case TypeKind::structured:
    case TypeKind::object: return false;
    default: return size > 1;
  }
}

Result<DataType> parse_typestr(std::string_view text) {
  const auto refuse = [&] { return fail(EINVAL, "\"{}\" is not a numpy type of Zarr v2", text); };
  if (text.size() < 2 || std::string_view("<>|").find(text[0]) == std::string_view::npos) return refuse();
  if (std::string_view("biufcmMSUVO").find(text[1]) == std::string_view::npos) return refuse();

  DataType type;
  type.kind = static_cast<TypeKind>(text[1]);
  std::string_view rest = text.substr(2);
  if (type.kind == TypeKind::object) {
    // numpy prints "|O"; a pointer size after it ("|O8") has no meaning in a file.
    if (!rest.empty() && rest != "8" && rest != "4") return refuse();
    return type;
  }
  const auto number = take_number(rest);
  if (!number) return refuse();
  type.size = type.kind == TypeKind::unicode ? *number * 4 : *number;
  if (!is_size_of(type.kind, type.size)) return refuse();
  if (type.kind == TypeKind::timedelta || type.kind == TypeKind::datetime) {
    if (!rest.empty()) {
      if (!rest.starts_with('[') || !rest.ends_with(']')) return refuse();
      type.unit = rest.substr(1, rest.size() - 2);
      if (type.unit != "generic" && !is_time_unit(type.unit)) return refuse();
      if (type.unit == "generic") type.unit.clear();
    }
  } else if (!rest.empty()) {
    return refuse();
  }
  // numpy reads '|' as native order where an order is needed; such files come from little-endian machines.
  if (has_byte_order(type.kind, type.size)) type.order = text[0] == '>' ? ByteOrder::big : ByteOrder::little;
  return type;
}

Result<DataType> parse_nested(const Json& dtype, int depth);

Result<std::vector<uint64_t>> parse_member_shape(const Json& shape, const std::string& name) {
  const auto extent = [](const Json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= kMaxTypeBytes;
  };
  std::vector<uint64_t> extents;
  if (extent(shape)) {
    extents.push_back(shape.get<uint64_t>());
  } else if (shape.is_array() && shape.size() <= kMaxTypeNesting && std::ranges::all_of(shape, extent)) {
    for (const Json& value : shape) extents.push_back(value.get<uint64_t>());
  } else {
    return fail(EINVAL, "member \"{}\" of a structured type has no valid shape", name);
  }
  return extents;
}

Result<DataType> parse_structured(const Json& list, int depth) {
  if (depth >= kMaxTypeNesting) return fail(EINVAL, "a structured type nested more than {} deep", kMaxTypeNesting);
  if (list.empty()) return fail(EINVAL, "a structured type without members");
  DataType type;
  type.kind = TypeKind::structured;
  std::set<std::string_view> names;
  for (const Json& item : list) {
    if (!item.is_array() || item.size() < 2 || item.size() > 3 || !item[0].is_string())
      return fail(EINVAL, "a member of a structured type is not [name, dtype] or [name, dtype, shape]");
    TypeMember member;
    member.name = item[0].get<std::string>();
    // numpy writes padding as members without a name, of which there may be several.
    if (!member.name.empty() && !names.insert(item[0].get_ref<const std::string&>()).second)
      return fail(EINVAL, "a structured type has two members \"{}\"", member.name);
    CODECFS_ASSIGN(member.type, parse_nested(item[1], depth + 1));
    if (member.type.kind == TypeKind::object)
      return fail(EINVAL, "member \"{}\" of a structured type is an object, whose bytes are nowhere defined",
                  member.name);
    if (item.size() == 3) {
      CODECFS_ASSIGN(member.shape, parse_member_shape(item[2], member.name));
    }
    uint64_t size = member.type.size;
    for (const uint64_t extent : member.shape)
      if (__builtin_mul_overflow(size, extent, &size) || size > kMaxTypeBytes)
        return fail(EINVAL, "member \"{}\" of a structured type is larger than 1 GiB", member.name);
    type.size += size;
    if (type.size > kMaxTypeBytes) return fail(EINVAL, "a structured type larger than 1 GiB");
    type.members.push_back(std::move(member));
  }
  return type;
}

Result<DataType> parse_nested(const Json& dtype, int depth) {
  if (dtype.is_string()) return parse_typestr(dtype.get_ref<const std::string&>());
  if (dtype.is_array()) return parse_structured(dtype, depth);
  return fail(EINVAL, "a dtype that is neither a string nor a list");
}

}  // namespace

uint64_t TypeMember::size() const {
  uint64_t size = type.size;
  for (const uint64_t extent : shape) size *= extent;
  return size;
}

Result<DataType> parse_dtype(const Json& dtype) { return parse_nested(dtype, 0); }

Json print_dtype(const DataType& type) {
  if (type.kind == TypeKind::structured) {
    Json list = Json::array();
    for (const TypeMember& member : type.members) {
      Json item = Json::array({member.name, print_dtype(member.type)});
      if (!member.shape.empty()) item.push_back(member.shape);
      list.push_back(std::move(item));
    }
    return list;
  }
  std::string text{static_cast<char>(type.order), static_cast<char>(type.kind)};
  if (type.kind == TypeKind::object) return text;
  text += std::to_string(type.kind == TypeKind::unicode ? type.size / 4 : type.size);
  if (!type.unit.empty()) text += fmt::format("[{}]", type.unit);
  return text;
}

}  // namespace codecfs
