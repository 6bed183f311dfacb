#include "model/zarr3_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "model/json.h"
#include "model/limits.h"
#include "model/small_float.h"

namespace codecfs {
namespace {

struct CoreType {
  std::string_view name;
  TypeKind kind;
  uint64_t size;
};

/// The names under which numpy's types are written; the first of each type is printed.
constexpr CoreType kCoreTypes[] = {
    {"bool", TypeKind::boolean, 1},
    {"int8", TypeKind::signed_int, 1},
    {"int16", TypeKind::signed_int, 2},
    {"int32", TypeKind::signed_int, 4},
    {"int64", TypeKind::signed_int, 8},
    {"uint8", TypeKind::unsigned_int, 1},
    {"uint16", TypeKind::unsigned_int, 2},
    {"uint32", TypeKind::unsigned_int, 4},
    {"uint64", TypeKind::unsigned_int, 8},
    {"float16", TypeKind::floating, 2},
    {"float32", TypeKind::floating, 4},
    {"float64", TypeKind::floating, 8},
    {"complex64", TypeKind::complex, 8},
    {"complex128", TypeKind::complex, 16},
    {"complex_float32", TypeKind::complex, 8},
    {"complex_float64", TypeKind::complex, 16},
};

bool has_order(const DataType& type) {
  switch (type.kind) {
    case TypeKind::string:
    case TypeKind::raw:
    case TypeKind::structured:
    case TypeKind::object: return false;
    default: return type.size > 1;
  }
}

DataType simple(TypeKind kind, uint64_t size) {
  DataType type;
  type.kind = kind;
  type.size = size;
  if (has_order(type)) type.order = ByteOrder::little;
  return type;
}

std::unexpected<Error> unknown(const Json& data_type) {
  return fail(EOPNOTSUPP, "\"data_type\": {} is not known", print_json(data_type));
}

std::unexpected<Error> malformed(const Json& data_type) {
  return fail(EINVAL, "\"data_type\": {} is not valid", print_json(data_type));
}

std::optional<Zarr3Type> named_type(std::string_view name) {
  const auto* const core = std::ranges::find(kCoreTypes, name, &CoreType::name);
  if (core != std::end(kCoreTypes)) return Zarr3Type{simple(core->kind, core->size), {}, {}};
  if (const SmallInt* small = small_int_named(name))
    return Zarr3Type{
        simple(small->is_signed ? TypeKind::signed_int : TypeKind::unsigned_int, 1), {}, std::string(name)};
  if (const SmallFloat* small = small_float_named(name))
    return Zarr3Type{simple(TypeKind::raw, small->bytes), {}, std::string(name)};
  if (name == "complex_float16") return Zarr3Type{simple(TypeKind::raw, 4), {}, std::string(name)};
  if (const SmallFloat* part = small_complex_part(name))
    return Zarr3Type{simple(TypeKind::raw, uint64_t{2} * part->bytes), {}, std::string(name)};
  if (name == "string") return Zarr3Type{simple(TypeKind::object, 0), Json{{"id", "vlen-utf8"}}, {}};
  if (name == "bytes" || name == "variable_length_bytes")
    return Zarr3Type{simple(TypeKind::object, 0), Json{{"id", "vlen-bytes"}}, {}};
  if (name.starts_with('r') && name.size() > 1) {  // r24: raw bits
    uint64_t bits = 0;
    const auto [end, code] = std::from_chars(name.data() + 1, name.data() + name.size(), bits);
    if (code == std::errc() && end == name.data() + name.size() && bits > 0 && bits % 8 == 0 &&
        bits / 8 <= kMaxTypeBytes)
      return Zarr3Type{simple(TypeKind::raw, bits / 8), {}, {}};
  }
  return std::nullopt;
}

Result<DataType> sized(TypeKind kind, const Json& data_type, const Json& configuration) {
  const Json length = member(configuration, "length_bytes");
  if (!length.is_number_unsigned() || length.get<uint64_t>() > kMaxTypeBytes) return malformed(data_type);
  if (kind == TypeKind::unicode && length.get<uint64_t>() % 4 != 0) return malformed(data_type);
  return simple(kind, length.get<uint64_t>());
}

Result<DataType> time_type(TypeKind kind, const Json& data_type, const Json& configuration) {
  const Json unit = member(configuration, "unit");
  const Json factor = member(configuration, "scale_factor");
  if (!unit.is_string() || (!factor.is_null() && !factor.is_number_unsigned())) return malformed(data_type);
  const uint64_t scale = factor.is_null() ? 1 : factor.get<uint64_t>();
  std::string text = unit.get<std::string>();
  if (text == "μs" || text == "µs") text = "us";
  if (scale != 1) text.insert(0, fmt::format("{}", scale));
  auto type = parse_dtype(fmt::format("<{}8[{}]", static_cast<char>(kind), text));
  if (!type) return malformed(data_type);
  return type;
}

Result<Zarr3Type> parse_nested_type(const Json& data_type, int depth);

/// `fields`: [{"name": "a", "data_type": "int16"}], or with pairs ["a", "int16"].
Result<DataType> struct_type(const Json& data_type, const Json& fields, int depth) {
  if (depth >= kMaxTypeNesting) return fail(EINVAL, "\"data_type\": nested more than {} deep", kMaxTypeNesting);
  if (!fields.is_array() || fields.empty()) return malformed(data_type);
  DataType type;
  type.kind = TypeKind::structured;
  std::set<std::string> names;
  for (const Json& field : fields) {
    const bool is_pair = field.is_array() && field.size() == 2;
    const Json name = is_pair ? field[0] : member(field, "name");
    if (!name.is_string() || !names.insert(name.get<std::string>()).second) return malformed(data_type);
    CODECFS_ASSIGN(const Zarr3Type part, parse_nested_type(is_pair ? field[1] : member(field, "data_type"), depth + 1));
    if (part.type.kind == TypeKind::object || !part.name.empty())
      return fail(EOPNOTSUPP, "\"data_type\": a struct with a member of type {}", print_json(field));
    type.size += part.type.size;
    if (type.size > kMaxTypeBytes) return fail(EINVAL, "\"data_type\": a struct larger than 1 GiB");
    type.members.push_back({.name = name.get<std::string>(), .type = part.type, .shape = {}});
  }
  return type;
}

Result<Zarr3Type> parse_nested_type(const Json& data_type, int depth) {
  const auto plain = [](Result<DataType> type) -> Result<Zarr3Type> {
    if (!type) return std::unexpected(type.error());
    return Zarr3Type{*std::move(type), {}, {}};
  };
  if (data_type.is_string()) {
    auto known = named_type(data_type.get_ref<const std::string&>());
    if (!known) return unknown(data_type);
    return *std::move(known);
  }
  if (data_type.is_array()) return plain(struct_type(data_type, data_type, depth));  // as tensorstore wrote them first
  const Json name = member(data_type, "name");
  const Json configuration = member(data_type, "configuration");
  if (!name.is_string() || (!configuration.is_null() && !configuration.is_object())) return malformed(data_type);
  const auto& text = name.get_ref<const std::string&>();
  if (text == "fixed_length_utf32") return plain(sized(TypeKind::unicode, data_type, configuration));
  if (text == "null_terminated_bytes") return plain(sized(TypeKind::string, data_type, configuration));
  if (text == "raw_bytes") return plain(sized(TypeKind::raw, data_type, configuration));
  if (text == "numpy.datetime64") return plain(time_type(TypeKind::datetime, data_type, configuration));
  if (text == "numpy.timedelta64") return plain(time_type(TypeKind::timedelta, data_type, configuration));
  if (text == "struct" || text == "structured") {
    auto type = plain(struct_type(data_type, member(configuration, "fields"), depth));
    if (type) type->is_struct = text == "struct";
    return type;
  }
  if (configuration.is_null() || configuration.empty())
    if (auto known = named_type(text)) return *std::move(known);
  return unknown(data_type);
}

Json extension(const char* name, Json configuration) {
  return {{"name", name}, {"configuration", std::move(configuration)}};
}

Result<Json> print_nested(const DataType& type, bool is_struct) {
  const auto no_type = [&] {
    return fail(EOPNOTSUPP, "Zarr v3 has no data type for elements of dtype {}", print_json(print_dtype(type)));
  };
  switch (type.kind) {
    case TypeKind::string: return extension("null_terminated_bytes", {{"length_bytes", type.size}});
    case TypeKind::unicode: return extension("fixed_length_utf32", {{"length_bytes", type.size}});
    case TypeKind::raw: return extension("raw_bytes", {{"length_bytes", type.size}});
    case TypeKind::datetime:
    case TypeKind::timedelta: {
      const char* const name = type.kind == TypeKind::datetime ? "numpy.datetime64" : "numpy.timedelta64";
      const size_t digits = std::min(type.unit.find_first_not_of("0123456789"), type.unit.size());
      const uint64_t scale = digits == 0 ? 1 : std::stoull(type.unit.substr(0, digits));
      const std::string unit = type.unit.empty() ? "generic" : type.unit.substr(digits);
      return extension(name, {{"unit", unit}, {"scale_factor", scale}});
    }
    case TypeKind::structured: {
      Json fields = Json::array();
      for (const TypeMember& part : type.members) {
        if (!part.shape.empty() || part.name.empty()) return no_type();
        CODECFS_ASSIGN(Json data_type, print_nested(part.type, is_struct));
        if (is_struct)
          fields.push_back({{"name", part.name}, {"data_type", std::move(data_type)}});
        else
          fields.push_back(Json::array({part.name, std::move(data_type)}));
      }
      return extension(is_struct ? "struct" : "structured", {{"fields", std::move(fields)}});
    }
    default:
      for (const CoreType& core : kCoreTypes)
        if (core.kind == type.kind && core.size == type.size) return std::string(core.name);
      return no_type();
  }
}

bool has_mixed_orders(const DataType& type) { return !common_byte_order(type).has_value(); }

}  // namespace

Result<Zarr3Type> parse_zarr3_type(const Json& data_type) { return parse_nested_type(data_type, 0); }

Result<Json> print_zarr3_type(const DataType& type, const Json& object_codec, bool is_struct) {
  if (type.kind == TypeKind::object) {
    const Json id = member(object_codec, "id");
    if (id == "vlen-utf8") return "string";
    if (id == "vlen-bytes") return "variable_length_bytes";
    return fail(EOPNOTSUPP, "Zarr v3 has no data type for elements of the codec {}", print_json(object_codec));
  }
  if (has_mixed_orders(type))
    return fail(EOPNOTSUPP, "Zarr v3 has no data type for dtype {}, with members of different byte orders",
                print_json(print_dtype(type)));
  return print_nested(type, is_struct || common_byte_order(type) == ByteOrder::big);
}

std::optional<ByteOrder> common_byte_order(const DataType& type) {
  if (type.kind != TypeKind::structured) return type.order;
  ByteOrder order = ByteOrder::none;
  for (const TypeMember& part : type.members) {
    const auto own = common_byte_order(part.type);
    if (!own || (order != ByteOrder::none && *own != ByteOrder::none && *own != order)) return std::nullopt;
    if (*own != ByteOrder::none) order = *own;
  }
  return order;
}

DataType with_byte_order(DataType type, ByteOrder order) {
  if (type.kind == TypeKind::structured) {
    for (TypeMember& part : type.members) part.type = with_byte_order(std::move(part.type), order);
  } else if (type.order != ByteOrder::none) {
    type.order = order;
  }
  return type;
}

}  // namespace codecfs
