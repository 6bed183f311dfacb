// Converts the fill values of Zarr v3 between JSON and the bytes of one element.

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/endian.h"
#include "model/base64.h"
#include "model/json.h"
#include "model/numpy_type.h"
#include "model/small_float.h"
#include "model/zarr3_type.h"

namespace codecfs {
namespace {

using Element = std::vector<std::byte>;

DataType little_float(uint64_t size) {
  DataType type;
  type.kind = TypeKind::floating;
  type.size = size;
  type.order = ByteOrder::little;
  return type;
}

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

/// A real number of a small format.
std::optional<Element> small_bytes(const SmallFloat& format, const Json& value, ByteOrder order) {
  if (auto bytes = hexadecimal_bytes(value, format.bytes, order)) return bytes;
  const auto number = zarr3_number(value);
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
  if (!zarr3_number(value)) return no_fill(value);
  DataType type = little_float(size);
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
  DataType type = little_float(size);
  type.order = order;
  const Json number = fill_json(type, element);
  // A NaN with other bits than the usual ones must not lose them.
  if (number != "NaN") return number;
  const auto usual = fill_bytes(type, number);
  return usual && std::ranges::equal(*usual, element) ? number : Json(hexadecimal_text(element, order));
}

}  // namespace

std::optional<double> zarr3_number(const Json& value) {
  if (const auto number = rounded_number(value)) return number;
  return value.is_string() ? parse_numpy_special(value.get_ref<const std::string&>()) : std::nullopt;
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
      if (!type.is_struct && common_byte_order(stored) != ByteOrder::big) return encode_base64(element);
      Json object = Json::object();
      size_t at = 0;
      for (const TypeMember& part : stored.members) {
        object[part.name] = zarr3_fill_json({part.type, {}, {}, true}, element.subspan(at, part.type.size));
        at += part.type.size;
      }
      return object;
    }
    default: return fill_json(stored, element);
  }
}

}  // namespace codecfs
