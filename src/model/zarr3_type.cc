#include "model/zarr3_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>

#include "base/endian.h"
#include "model/base64.h"
#include "model/json.h"
#include "model/small_float.h"

namespace codecfs {
namespace {

using Element = std::vector<std::byte>;

constexpr uint64_t kMaxSize = uint64_t{1} << 30;
constexpr int kMaxNesting = 32;

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

struct SmallInt {
  std::string_view name;
  TypeKind kind;
  int64_t lowest;
  int64_t highest;
};

constexpr SmallInt kSmallInts[] = {{"int2", TypeKind::signed_int, -2, 1},
                                   {"int4", TypeKind::signed_int, -8, 7},
                                   {"uint2", TypeKind::unsigned_int, 0, 3},
                                   {"uint4", TypeKind::unsigned_int, 0, 15}};

const SmallInt* small_int_named(std::string_view name) {
  const auto* const found = std::ranges::find(kSmallInts, name, &SmallInt::name);
  return found == std::end(kSmallInts) ? nullptr : found;
}

/// The format of the parts of complex_bfloat16 and similar names; null for others.
const SmallFloat* small_complex_part(std::string_view name) {
  constexpr std::string_view kPrefix = "complex_";
  return name.starts_with(kPrefix) ? small_float_named(name.substr(kPrefix.size())) : nullptr;
}

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
  if (const SmallInt* small = small_int_named(name)) return Zarr3Type{simple(small->kind, 1), {}, std::string(name)};
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
    if (code == std::errc() && end == name.data() + name.size() && bits > 0 && bits % 8 == 0 && bits / 8 <= kMaxSize)
      return Zarr3Type{simple(TypeKind::raw, bits / 8), {}, {}};
  }
  return std::nullopt;
}

/// The member of a configuration; null if it is missing.
Json member(const Json& configuration, const char* key) {
  const auto found = configuration.is_object() ? configuration.find(key) : configuration.end();
  return found == configuration.end() ? Json() : *found;
}

Result<DataType> sized(TypeKind kind, const Json& data_type, const Json& configuration) {
  const Json length = member(configuration, "length_bytes");
  if (!length.is_number_unsigned() || length.get<uint64_t>() > kMaxSize) return malformed(data_type);
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

Result<Zarr3Type> parse_nested(const Json& data_type, int depth);

/// {"fields": [{"name": "a", "data_type": "int16"}]}, or with pairs ["a", "int16"] as earlier releases of zarr-python
/// wrote them.
Result<DataType> struct_type(const Json& data_type, const Json& configuration, int depth) {
  if (depth >= kMaxNesting) return fail(EINVAL, "\"data_type\": nested more than {} deep", kMaxNesting);
  const Json fields = member(configuration, "fields");
  if (!fields.is_array() || fields.empty()) return malformed(data_type);
  DataType type;
  type.kind = TypeKind::structured;
  std::set<std::string> names;
  for (const Json& field : fields) {
    const bool is_pair = field.is_array() && field.size() == 2;
    const Json name = is_pair ? field[0] : member(field, "name");
    if (!name.is_string() || !names.insert(name.get<std::string>()).second) return malformed(data_type);
    CODECFS_ASSIGN(const Zarr3Type part, parse_nested(is_pair ? field[1] : member(field, "data_type"), depth + 1));
    if (part.type.kind == TypeKind::object || !part.name.empty())
      return fail(EOPNOTSUPP, "\"data_type\": a struct with a member of type {}", print_json(field));
    type.size += part.type.size;
    if (type.size > kMaxSize) return fail(EINVAL, "\"data_type\": a struct larger than 1 GiB");
    type.members.push_back({.name = name.get<std::string>(), .type = part.type, .shape = {}});
  }
  return type;
}

Result<Zarr3Type> parse_nested(const Json& data_type, int depth) {
  if (data_type.is_string()) {
    auto known = named_type(data_type.get_ref<const std::string&>());
    if (!known) return unknown(data_type);
    return *std::move(known);
  }
  const Json name = member(data_type, "name");
  const Json configuration = member(data_type, "configuration");
  if (!name.is_string() || (!configuration.is_null() && !configuration.is_object())) return malformed(data_type);
  const auto& text = name.get_ref<const std::string&>();
  const auto plain = [](Result<DataType> type) -> Result<Zarr3Type> {
    if (!type) return std::unexpected(type.error());
    return Zarr3Type{*std::move(type), {}, {}};
  };
  if (text == "fixed_length_utf32") return plain(sized(TypeKind::unicode, data_type, configuration));
  if (text == "null_terminated_bytes") return plain(sized(TypeKind::string, data_type, configuration));
  if (text == "raw_bytes") return plain(sized(TypeKind::raw, data_type, configuration));
  if (text == "numpy.datetime64") return plain(time_type(TypeKind::datetime, data_type, configuration));
  if (text == "numpy.timedelta64") return plain(time_type(TypeKind::timedelta, data_type, configuration));
  if (text == "struct" || text == "structured") return plain(struct_type(data_type, configuration, depth));
  if (configuration.is_null() || configuration.empty())
    if (auto known = named_type(text)) return *std::move(known);
  return unknown(data_type);
}

Json extension(const char* name, Json configuration) {
  return {{"name", name}, {"configuration", std::move(configuration)}};
}

Result<Json> print_nested(const DataType& type) {
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
        CODECFS_ASSIGN(Json data_type, print_nested(part.type));
        fields.push_back({{"name", part.name}, {"data_type", std::move(data_type)}});
      }
      return extension("struct", {{"fields", std::move(fields)}});
    }
    default:
      for (const CoreType& core : kCoreTypes)
        if (core.kind == type.kind && core.size == type.size) return std::string(core.name);
      return no_type();
  }
}

bool has_mixed_orders(const DataType& type) { return !common_byte_order(type).has_value(); }

// --- fill values

std::unexpected<Error> no_fill(const Json& fill_value) {
  return fail(EINVAL, "\"fill_value\": {} does not fit the data type", print_json(fill_value));
}

void put_in_order(ByteOrder order, std::span<std::byte> bytes) {
  if (order == ByteOrder::big) std::ranges::reverse(bytes);
}

/// The bytes of "0x7fc00001", most significant first in the text; none if the text has another form.
std::optional<Element> hexadecimal_bytes(const Json& value, size_t size, ByteOrder order) {
  if (!value.is_string()) return std::nullopt;
  const std::string_view text = value.get_ref<const std::string&>();
  if (!text.starts_with("0x") || text.size() != 2 + size * 2) return std::nullopt;
  Element bytes(size);
  for (size_t i = 0; i < size; ++i) {
    unsigned byte = 0;
    const char* const at = text.data() + 2 + i * 2;
    const auto [end, code] = std::from_chars(at, at + 2, byte, 16);
    if (code != std::errc() || end != at + 2) return std::nullopt;
    bytes[size - 1 - i] = static_cast<std::byte>(byte);
  }
  put_in_order(order, bytes);
  return bytes;
}

std::string hexadecimal_text(std::span<const std::byte> element, ByteOrder order) {
  Element bytes(element.begin(), element.end());
  put_in_order(order, bytes);
  std::string text = "0x";
  for (size_t i = bytes.size(); i-- > 0;) text += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  return text;
}

std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

/// A real number of a small format.
std::optional<Element> small_bytes(const SmallFloat& format, const Json& value, ByteOrder order) {
  if (auto bytes = hexadecimal_bytes(value, format.bytes, order)) return bytes;
  const auto number = number_in(value);
  const auto bits = number ? small_float_bits(format, *number) : std::nullopt;
  if (!bits) return std::nullopt;
  std::byte all[4];
  store_le(all, *bits);
  Element bytes(all, all + format.bytes);
  put_in_order(order, bytes);
  return bytes;
}

/// A real number of 2, 4 or 8 bytes.
Result<Element> real_bytes(uint64_t size, ByteOrder order, const Json& value) {
  if (auto bytes = hexadecimal_bytes(value, size, order)) return *std::move(bytes);
  if (!number_in(value)) return no_fill(value);
  DataType type = simple(TypeKind::floating, size);
  type.order = order;
  return fill_bytes(type, value);
}

/// Two numbers as the parts of a complex one; a single number is real.
template <class Part>
Result<Element> complex_bytes(const Json& value, size_t part_size, const Part& part) {
  const bool is_pair = value.is_array() && value.size() == 2;
  CODECFS_ASSIGN(Element bytes, part(is_pair ? value[0] : value));
  if (!is_pair) {
    bytes.resize(part_size * 2);
    return bytes;
  }
  CODECFS_ASSIGN(const Element imaginary, part(value[1]));
  bytes.insert(bytes.end(), imaginary.begin(), imaginary.end());
  return bytes;
}

/// A list of byte values, or base64; shorter ones are padded with zeros.
std::optional<Element> opaque_bytes(const Json& value) {
  if (value.is_string()) return decode_base64(value.get_ref<const std::string&>());
  if (!value.is_array()) return std::nullopt;
  Element bytes;
  for (const Json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > 255) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(item.get<uint64_t>()));
  }
  return bytes;
}

Element with_length(std::span<const std::byte> bytes) {
  Element item(4 + bytes.size());
  store_le(item.data(), static_cast<uint32_t>(bytes.size()));
  std::ranges::copy(bytes, item.begin() + 4);
  return item;
}

Result<Element> fill_of(const DataType& type, const Json& value);

Result<Element> struct_fill(const DataType& type, const Json& value) {
  if (value.is_number() && value.get<double>() == 0) return Element(type.size);
  if (value.is_string() || value.is_array()) {
    auto bytes = opaque_bytes(value);
    if (!bytes || bytes->size() != type.size) return no_fill(value);
    return *std::move(bytes);
  }
  if (!value.is_object()) return no_fill(value);
  Element all;
  for (const TypeMember& part : type.members) {
    const auto found = value.find(part.name);
    if (found == value.end()) return no_fill(value);
    CODECFS_ASSIGN(const Element bytes, fill_of(part.type, *found));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

Result<Element> fill_of(const DataType& type, const Json& value) {
  switch (type.kind) {
    case TypeKind::floating: return real_bytes(type.size, type.order, value);
    case TypeKind::complex: {
      const uint64_t half = type.size / 2;
      return complex_bytes(value, half, [&](const Json& part) { return real_bytes(half, type.order, part); });
    }
    case TypeKind::structured: return struct_fill(type, value);
    case TypeKind::string:
    case TypeKind::raw: {
      if (value.is_number() && value.get<double>() == 0) return Element(type.size);
      auto bytes = opaque_bytes(value);
      if (!bytes || bytes->size() > type.size) return no_fill(value);
      bytes->resize(type.size);
      return *std::move(bytes);
    }
    default: {
      auto bytes = fill_bytes(type, value);
      if (!bytes) return no_fill(value);
      return bytes;
    }
  }
}

Json real_json(uint64_t size, ByteOrder order, std::span<const std::byte> element) {
  DataType type = simple(TypeKind::floating, size);
  type.order = order;
  const Json number = fill_json(type, element);
  // A NaN with other bits than the usual ones must not lose them.
  if (number != "NaN") return number;
  const auto usual = fill_bytes(type, number);
  return usual && std::ranges::equal(*usual, element) ? number : Json(hexadecimal_text(element, order));
}

}  // namespace

Result<Zarr3Type> parse_zarr3_type(const Json& data_type) { return parse_nested(data_type, 0); }

Result<Json> print_zarr3_type(const DataType& type, const Json& object_codec) {
  if (type.kind == TypeKind::object) {
    const Json id = member(object_codec, "id");
    if (id == "vlen-utf8") return "string";
    if (id == "vlen-bytes") return "variable_length_bytes";
    return fail(EOPNOTSUPP, "Zarr v3 has no data type for elements of the codec {}", print_json(object_codec));
  }
  if (has_mixed_orders(type))
    return fail(EOPNOTSUPP, "Zarr v3 has no data type for dtype {}, with members of different byte orders",
                print_json(print_dtype(type)));
  return print_nested(type);
}

Result<std::vector<std::byte>> zarr3_fill_bytes(const Zarr3Type& type, const Json& fill_value) {
  if (type.type.kind == TypeKind::object) {
    if (type.object_codec == Json{{"id", "vlen-utf8"}}) {
      if (!fill_value.is_string()) return no_fill(fill_value);
      return with_length(std::as_bytes(std::span(fill_value.get_ref<const std::string&>())));
    }
    const auto bytes = opaque_bytes(fill_value);
    if (!bytes) return no_fill(fill_value);
    return with_length(*bytes);
  }
  if (const SmallInt* small = small_int_named(type.name)) {
    if (!fill_value.is_number_integer() || fill_value.get<int64_t>() < small->lowest ||
        fill_value.get<int64_t>() > small->highest)
      return no_fill(fill_value);
    return Element{static_cast<std::byte>(fill_value.get<int64_t>())};
  }
  const ByteOrder order = ByteOrder::little;
  if (const SmallFloat* small = small_float_named(type.name)) {
    auto bytes = small_bytes(*small, fill_value, order);
    if (!bytes) return no_fill(fill_value);
    return *std::move(bytes);
  }
  if (type.name == "complex_float16")
    return complex_bytes(fill_value, 2, [&](const Json& part) { return real_bytes(2, order, part); });
  if (const SmallFloat* part_format = small_complex_part(type.name)) {
    return complex_bytes(fill_value, part_format->bytes, [&](const Json& part) -> Result<Element> {
      auto bytes = small_bytes(*part_format, part, order);
      if (!bytes) return no_fill(fill_value);
      return *std::move(bytes);
    });
  }
  return fill_of(type.type, fill_value);
}

Json zarr3_fill_json(const Zarr3Type& type, std::span<const std::byte> element) {
  const DataType& stored = type.type;
  if (stored.kind == TypeKind::object) {
    const auto bytes = element.size() < 4 ? element.first(0) : element.subspan(4);
    if (type.object_codec == Json{{"id", "vlen-utf8"}})
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return encode_base64(bytes);
  }
  if (small_float_named(type.name) != nullptr) return hexadecimal_text(element, ByteOrder::little);
  if (type.name.starts_with("complex_")) {
    const size_t half = element.size() / 2;
    return Json::array({hexadecimal_text(element.first(half), ByteOrder::little),
                        hexadecimal_text(element.subspan(half), ByteOrder::little)});
  }
  switch (stored.kind) {
    case TypeKind::floating: return real_json(stored.size, stored.order, element);
    case TypeKind::complex: {
      const size_t half = element.size() / 2;
      return Json::array(
          {real_json(half, stored.order, element.first(half)), real_json(half, stored.order, element.subspan(half))});
    }
    case TypeKind::datetime:
    case TypeKind::timedelta: {
      Json number = fill_json(stored, element);
      return number == std::numeric_limits<int64_t>::min() ? Json("NaT") : number;
    }
    case TypeKind::string:
    case TypeKind::raw: return encode_base64(element);  // zarr-python takes no list for raw_bytes
    case TypeKind::structured: {
      Json object = Json::object();
      size_t at = 0;
      for (const TypeMember& part : stored.members) {
        object[part.name] = zarr3_fill_json({part.type, {}, {}}, element.subspan(at, part.type.size));
        at += part.type.size;
      }
      return object;
    }
    default: return fill_json(stored, element);
  }
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
