#include "backends/hdf5/metadata/attribute_encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/api/names.h"
#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/type_make.h"
#include "backends/hdf5/metadata/type_map.h"
#include "filters/codecs/number_types.h"

namespace codecfs::hdf5 {
namespace {

// Whether the numbers are equal exactly, not only as doubles.
bool same_number(const Json& a, const Json& b) {
  if (a.is_number_float() && b.is_number_float())
    return a == b || (std::isnan(a.get<double>()) && std::isnan(b.get<double>()));
  if (a.is_number_float()) return same_number(b, a);
  if (!b.is_number_float()) {
    const bool below_a = !a.is_number_unsigned() && a.get<int64_t>() < 0;
    const bool below_b = !b.is_number_unsigned() && b.get<int64_t>() < 0;
    return below_a == below_b && a.get<uint64_t>() == b.get<uint64_t>();
  }
  const double number = b.get<double>();
  if (number >= 0) return number < 0x1p64 && Json(static_cast<uint64_t>(number)) == a && std::floor(number) == number;
  return number >= -0x1p63 && Json(static_cast<int64_t>(number)) == a && std::floor(number) == number;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Converts JSON to values of an HDF5 type in memory. False if a value does not fit exactly.
class Encoder {
 public:
  explicit Encoder(std::deque<std::string>& texts) : texts_(texts) {}

  bool encode(hid_t type, const Json& value, std::byte* to) {
    switch (H5Tget_class(type)) {
      case H5T_INTEGER: return integer(type, value, to);
      case H5T_FLOAT: return number(H5Tget_size(type), value, to);
      case H5T_STRING: return value.is_string() && text(type, value.get_ref<const std::string&>(), to);
      case H5T_ENUM: return enumeration(type, value, to);
      case H5T_COMPOUND: return compound(type, value, to);
      case H5T_ARRAY: return array(type, value, to);
      case H5T_VLEN: return sequence(type, value, to);
      case H5T_BITFIELD: return integer(type, value, to);
      default: return native_complex(type, value, to);
    }
  }

  static bool number(size_t size, const Json& value, std::byte* to) {
    if (value.is_number()) return floating(size, value, to);
    if (!is_large_integer(value)) return false;
    const double rounded = *rounded_number(value);  // some writers print 1e20 so
    return fmt::format("{:.0f}", rounded) == print_json(value) && floating(size, rounded, to);
  }

  static bool integer(hid_t type, const Json& value, std::byte* to) {
    if (!value.is_number()) return false;
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    const uint64_t size = H5Tget_size(type);
    if (!std::has_single_bit(size) || size > 8) return false;
    const DataType native{is_signed ? TypeKind::signed_int : TypeKind::unsigned_int,
                          std::endian::native == std::endian::big ? ByteOrder::big : ByteOrder::little,
                          size,
                          {},
                          {}};
    const auto bytes = fill_bytes(native, value);
    if (!bytes) return false;
    std::ranges::copy(*bytes, to);
    return true;
  }

  static bool floating(uint64_t size, const Json& value, std::byte* to) {
    const auto number = value.get<double>();
    if (!same_number(value, Json(number))) return false;
    if (size == sizeof(uint16_t)) {  // native half floats exist since libhdf5 1.14.4
      const filters::Half narrow = filters::double_to_half(number);
      put(to, narrow.bits);
      return std::isnan(number) || filters::half_to_double(narrow) == number;
    }
    if (size == sizeof(float)) {
      const auto narrow = static_cast<float>(number);
      put(to, narrow);
      return std::isnan(number) || static_cast<double>(narrow) == number || shortest_double(narrow) == number;
    }
    if (size == sizeof(double)) {
      put(to, number);
    } else if (size == sizeof(long double)) {
      put(to, static_cast<long double>(number));
    } else {
      return false;
    }
    return true;
  }

 private:
  bool text(hid_t type, const std::string& value, std::byte* to) {
    if (value.find('\0') != std::string::npos) return false;
    if (H5Tget_cset(type) != H5T_CSET_UTF8 && !is_ascii(value)) return false;
    if (H5Tis_variable_str(type) > 0) {
      put(to, texts_.emplace_back(value).c_str());
      return true;
    }
    const size_t size = H5Tget_size(type);
    const bool spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    if (value.size() > size || (spaces && value.ends_with(' '))) return false;
    std::memset(to, spaces ? ' ' : '\0', size);
    std::memcpy(to, value.data(), value.size());
    return true;
  }

  static bool enumeration(hid_t type, const Json& value, std::byte* to) {
    if (is_boolean(type)) {
      if (!value.is_boolean()) return false;
      put<unsigned char>(to, value.get<bool>() ? 1 : 0);
      return true;
    }
    const Handle base(H5Tget_super(type));
    std::array<char, 1024> name{};
    return integer(base.get(), value, to) && H5Tenum_nameof(type, to, name.data(), name.size()) >= 0;
  }

  bool native_complex(hid_t type, const Json& value, std::byte* to) {
    const Handle part = complex_part(type);
    return part && value.is_array() && value.size() == 2 && encode(part.get(), value[0], to) &&
           encode(part.get(), value[1], to + H5Tget_size(type) / 2);
  }

  bool compound(hid_t type, const Json& value, std::byte* to) {
    const bool complex = is_complex(type);
    const auto count = static_cast<unsigned>(std::max(H5Tget_nmembers(type), 0));
    if (value.size() != count || !(complex ? value.is_array() : value.is_object())) return false;
    for (unsigned i = 0; i < count; ++i) {
      const Handle member(H5Tget_member_type(type, i));
      char* raw = H5Tget_member_name(type, i);
      const std::string name = escape_attribute_name(raw != nullptr ? raw : "");
      H5free_memory(raw);
      if (!complex && !value.contains(name)) return false;
      if (!encode(member.get(), complex ? value[i] : value[name], to + H5Tget_member_offset(type, i))) return false;
    }
    return true;
  }

  bool array(hid_t type, const Json& value, std::byte* to) {
    const Handle base(H5Tget_super(type));
    Dims dims(static_cast<size_t>(std::max(H5Tget_array_ndims(type), 0)));
    std::vector<const Json*> items;
    if (H5Tget_array_dims2(type, dims.data()) < 1 || !flatten(value, dims, items)) return false;
    const size_t size = H5Tget_size(base.get());
    for (const Json* item : items) {
      if (!encode(base.get(), *item, to)) return false;
      to += size;
    }
    return true;
  }

  bool sequence(hid_t type, const Json& value, std::byte* to) {
    if (!value.is_array()) return false;
    const Handle base(H5Tget_super(type));
    const size_t size = H5Tget_size(base.get());
    std::string& items = texts_.emplace_back(value.size() * size, '\0');
    auto* at = reinterpret_cast<std::byte*>(items.data());
    for (const Json& item : value) {
      if (!encode(base.get(), item, at)) return false;
      at += size;
    }
    put(to, hvl_t{value.size(), items.data()});
    return true;
  }

  std::deque<std::string>& texts_;
};

// Whether values do not change when libhdf5 converts them to the stored type and back.
bool survives(hid_t memory, hid_t stored, const std::vector<std::byte>& bytes, size_t count) {
  if (count == 0 || H5Tdetect_class(stored, H5T_STRING) > 0 || H5Tdetect_class(stored, H5T_VLEN) > 0) return true;
  const size_t size = std::max(H5Tget_size(memory), H5Tget_size(stored));
  std::vector<std::byte> there(count * size);
  std::vector<std::byte> background(count * size);
  std::ranges::copy(bytes, there.begin());
  if (H5Tconvert(memory, stored, count, there.data(), background.data(), H5P_DEFAULT) < 0) return false;
  std::ranges::fill(background, std::byte{0});
  if (H5Tconvert(stored, memory, count, there.data(), background.data(), H5P_DEFAULT) < 0) return false;
  return std::equal(bytes.begin(), bytes.end(), there.begin());
}

}  // namespace

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 128; });
}

bool same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return same_number(a, b);
  if (a.type() != b.type()) return false;
  if (a.is_array()) return std::ranges::equal(a, b, same_value);
  if (!a.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a.items(), [&](const auto& member) {
    const auto other = b.find(member.key());
    return other != b.end() && same_value(member.value(), *other);
  });
}

Dims depth_of(const Json& value) {
  Dims dims;
  for (const Json* at = &value; at->is_array(); at = &at->front()) {
    dims.push_back(at->size());
    if (at->empty()) break;
  }
  return dims;
}

bool flatten(const Json& value, std::span<const hsize_t> dims, std::vector<const Json*>& items) {
  if (dims.empty()) {
    items.push_back(&value);
    return true;
  }
  if (!value.is_array() || value.size() != dims[0]) return false;
  return std::ranges::all_of(value, [&](const Json& item) { return flatten(item, dims.subspan(1), items); });
}

size_t lists_in(hid_t type) {
  if (H5Tget_class(type) == H5T_COMPOUND) return is_complex(type) ? 1 : 0;
  if (H5Tget_class(type) == H5T_VLEN) {
    const Handle item(H5Tget_super(type));
    return 1 + lists_in(item.get());
  }
  if (H5Tget_class(type) != H5T_ARRAY) return complex_part(type) ? 1 : 0;
  const Handle base(H5Tget_super(type));
  return static_cast<size_t>(std::max(H5Tget_array_ndims(type), 0)) + lists_in(base.get());
}

bool encode_items(hid_t memory, hid_t stored, std::span<const Json* const> items, std::vector<std::byte>& bytes,
                  std::deque<std::string>& texts) {
  const size_t size = H5Tget_size(memory);
  bytes.assign(items.size() * size, std::byte{0});
  Encoder encoder(texts);
  std::byte* at = bytes.data();
  for (const Json* item : items) {
    if (!encoder.encode(memory, *item, at)) return false;
    at += size;
  }
  return survives(memory, stored, bytes, items.size());
}

}  // namespace codecfs::hdf5
