// Attributes as JSON. libhdf5 converts the stored values to native types, which are traversed recursively.

#include "backends/hdf5/metadata/attribute_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>

#include "backends/api/names.h"
#include "backends/hdf5/format/object_walk.h"
#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "base/log.h"
#include "base/utf8.h"
#include "base/worker_process.h"
#include "filters/codecs/number_types.h"
#include "model/base64.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::hdf5 {
namespace {

constexpr std::array kNetcdfHidden = {"_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict",
                                      "_NCProperties", "DIMENSION_LIST",      "REFERENCE_LIST"};
constexpr std::array<std::string_view, 2> kDimensionReferences = {"DIMENSION_LIST", "REFERENCE_LIST"};
constexpr std::array kScaleHidden = {"CLASS", "NAME", "REFERENCE_LIST"};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Converts a value in memory; `stored` is the type in the file, for types that the conversion to native widens.
class ValueReader {
 public:
  /// None if the value has no JSON form.
  std::optional<Json> read(hid_t type, const std::byte* value) {
    switch (H5Tget_class(type)) {
      case H5T_INTEGER: return integer(type, value);
      case H5T_FLOAT: return floating(type, value);
      case H5T_STRING: return string(type, value);
      case H5T_ENUM: {
        const Handle base(H5Tget_super(type));
        auto number = integer(base.get(), value);
        return is_boolean(type) ? std::make_optional(Json(number != Json(0))) : number;
      }
      case H5T_ARRAY: return array(type, value);
      case H5T_VLEN: return sequence(type, value);
      case H5T_COMPOUND: return compound(type, value);
      case H5T_REFERENCE: return std::nullopt;
      case H5T_BITFIELD:
        if (auto number = integer(type, value)) return number;
        [[fallthrough]];
      default: return other(type, value);
    }
  }

  /// Nested lists with `rank` dimensions.
  std::optional<Json> nested(hid_t type, const std::byte*& value, const hsize_t* dims, int rank) {
    return nested({type, H5Tget_size(type), rank > 0 ? number_of(type) : nullptr}, value, dims, rank);
  }

 private:
  static std::optional<Json> integer(hid_t type, const std::byte* value) {
    const Number number = integer_of(type);
    return number == nullptr ? std::nullopt : std::optional(number(value));
  }

  static std::optional<Json> floating(hid_t type, const std::byte* value) {
    const Number number = floating_of(type);
    return number == nullptr ? std::nullopt : std::optional(number(value));
  }

  // Converts a number of a certain type. Found once for all elements of a list, as each call of libhdf5 takes longer
  // than a conversion.
  using Number = Json (*)(const std::byte*);

  template <class T>
  static Json number(const std::byte* value) {
    return Json(load<T>(value));
  }

  struct Element {
    hid_t type;
    size_t size;
    Number number;  // null: read() converts it
  };

  std::optional<Json> nested(const Element& element, const std::byte*& value, const hsize_t* dims, int rank) {
    if (rank == 0) {
      auto one = element.number != nullptr ? std::optional(element.number(value)) : read(element.type, value);
      value += element.size;
      return one;
    }
    Json list = Json::array();
    for (hsize_t i = 0; i < dims[0]; ++i) {
      auto item = nested(element, value, dims + 1, rank - 1);
      if (!item) return std::nullopt;
      list.push_back(std::move(*item));
    }
    return list;
  }

  // Null: not a number that has a JSON form.
  static Number number_of(hid_t type) {
    switch (H5Tget_class(type)) {
      case H5T_INTEGER: return integer_of(type);
      case H5T_FLOAT: return floating_of(type);
      default: return nullptr;
    }
  }

  static Number integer_of(hid_t type) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    switch (H5Tget_size(type)) {
      case 1: return is_signed ? number<int8_t> : number<uint8_t>;
      case 2: return is_signed ? number<int16_t> : number<uint16_t>;
      case 4: return is_signed ? number<int32_t> : number<uint32_t>;
      case 8: return is_signed ? number<int64_t> : number<uint64_t>;
      default: return nullptr;
    }
  }

  static Number floating_of(hid_t type) {
    switch (H5Tget_size(type)) {
      // Native half floats exist since libhdf5 1.14.4; before, they are float in memory.
      case sizeof(uint16_t):
        return [](const std::byte* value) { return Json(filters::half_to_double({load<uint16_t>(value)})); };
      case sizeof(float): return [](const std::byte* value) { return Json(shortest_double(load<float>(value))); };
      case sizeof(double): return number<double>;
      case sizeof(long double):
        return [](const std::byte* value) { return Json(static_cast<double>(load<long double>(value))); };
      default: return nullptr;
    }
  }

  static std::optional<Json> string(hid_t type, const std::byte* value) {
    if (H5Tis_variable_str(type) > 0) {
      const char* text = load<const char*>(value);
      return Json(text == nullptr ? "" : as_utf8(text));
    }
    std::string_view text(reinterpret_cast<const char*>(value), H5Tget_size(type));
    const H5T_str_t padding = H5Tget_strpad(type);
    if (padding == H5T_STR_NULLTERM) {
      text = text.substr(0, text.find('\0'));
    } else {
      const char pad = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
      while (!text.empty() && text.back() == pad) text.remove_suffix(1);
    }
    return Json(as_utf8(text));
  }

  std::optional<Json> array(hid_t type, const std::byte* value) {
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Tget_array_dims2(type, dims.data());
    if (rank < 1) return std::nullopt;
    const Handle base(H5Tget_super(type));
    return nested(base.get(), value, dims.data(), rank);
  }

  std::optional<Json> sequence(hid_t type, const std::byte* value) {
    const auto items = load<hvl_t>(value);
    const Handle base(H5Tget_super(type));
    const auto* item = static_cast<const std::byte*>(items.p);
    const hsize_t count = item == nullptr ? 0 : items.len;
    return nested(base.get(), item, &count, 1);
  }

  std::optional<Json> other(hid_t type, const std::byte* value) {
    const size_t size = H5Tget_size(type);
    const Handle part = complex_part(type);
    if (!part) return Json(encode_base64({value, size}));
    std::optional<Json> real = read(part.get(), value);
    std::optional<Json> imaginary = read(part.get(), value + size / 2);
    if (!real || !imaginary) return std::nullopt;
    return Json::array({*std::move(real), *std::move(imaginary)});
  }

  std::optional<Json> compound(hid_t type, const std::byte* value) {
    const bool complex = is_complex(type);
    Json members = complex ? Json::array() : Json::object();
    const int count = H5Tget_nmembers(type);
    for (unsigned i = 0; i < static_cast<unsigned>(std::max(count, 0)); ++i) {
      const Handle member(H5Tget_member_type(type, i));
      auto item = read(member.get(), value + H5Tget_member_offset(type, i));
      if (!item) return std::nullopt;
      if (complex) {
        members.push_back(std::move(*item));
        continue;
      }
      char* name = H5Tget_member_name(type, i);
      members[escape_attribute_name(name != nullptr ? name : "")] = std::move(*item);
      H5free_memory(name);
    }
    return members;
  }
};

// What an open attribute holds. Its type is asked for once, as this takes longer than the rest for a number.
class AttributeReader {
 public:
  explicit AttributeReader(hid_t attribute)
      : attribute_(attribute),
        space_(H5Aget_space(attribute)),
        stored_(H5Aget_type(attribute)),
        class_(H5Tget_class(stored_.get())) {}

  // None if it has no JSON form.
  Result<std::optional<Json>> value(bool single_values) const;
  // Attribute::stored_type.
  Json stored_type(bool netcdf) const;
  // Attribute::type, of this value.
  std::string nczarr_type(const Json& value) const;

 private:
  [[nodiscard]] bool is_number() const { return class_ == H5T_INTEGER || class_ == H5T_FLOAT; }

  const hid_t attribute_;
  const Handle space_;
  const Handle stored_;
  const H5T_class_t class_;
};

Result<std::optional<Json>> AttributeReader::value(bool single_values) const {
  if (!space_ || !stored_) return fail_library(EIO, "its type");
  if (!is_number() && H5Tdetect_class(stored_.get(), H5T_REFERENCE) > 0) return std::optional<Json>();
  const H5S_class_t space_class = H5Sget_simple_extent_type(space_.get());
  // netCDF's form of a text without characters.
  const bool is_empty_text = single_values && class_ == H5T_STRING && H5Tis_variable_str(stored_.get()) == 0;
  if (space_class == H5S_NULL) return std::optional(is_empty_text ? Json("") : Json());
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const bool is_scalar = space_class == H5S_SCALAR;
  int rank = is_scalar ? 0 : H5Sget_simple_extent_dims(space_.get(), dims.data(), nullptr);
  const hssize_t count = is_scalar ? 1 : H5Sget_simple_extent_npoints(space_.get());
  if (rank < 0 || count < 0) return fail_library(EIO, "its shape");

  // Opaque bytes, long bitfields and similar have no other native type.
  Handle type(H5Tget_native_type(stored_.get(), H5T_DIR_ASCEND));
  if (!type) type = Handle(H5Tcopy(stored_.get()));
  const uint64_t size = H5Tget_size(type.get());
  if (size == 0 || static_cast<uint64_t>(count) > kMaxAttribute / size)
    return fail(EFBIG, "{} elements of {} bytes are more than the limit of 16 MiB", count, size);
  std::vector<std::byte> values(static_cast<size_t>(count) * size);
  if (count > 0 && H5Aread(attribute_, type.get(), values.data()) < 0) return fail_library(EIO, "its value");

  struct Reclaim {
    hid_t type, space;
    void* values;
    bool is_number;
    ~Reclaim() {
      if (is_number) return;
      if (H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_STRING) > 0) reclaim(type, space, values);
    }
  } guard{type.get(), space_.get(), values.data(), is_number()};
  if (count == 0) guard.type = H5T_NATIVE_INT;

  if (single_values && count == 1) rank = 0;
  const std::byte* at = values.data();
  return ValueReader().nested(type.get(), at, dims.data(), rank);
}

std::string AttributeReader::nczarr_type(const Json& value) const {
  const size_t size = H5Tget_size(stored_.get());
  const bool is_power = size == 1 || size == 2 || size == 4 || size == 8;
  switch (class_) {
    case H5T_INTEGER:
      if (!is_power) return {};
      return {size == 1 ? '|' : '<', H5Tget_sign(stored_.get()) == H5T_SGN_2 ? 'i' : 'u',
              static_cast<char>('0' + size)};
    case H5T_FLOAT: return size == 4 ? "<f4" : size == 8 ? "<f8" : "";
    case H5T_STRING: {
      // As netCDF-C reads them: texts of a fixed length are characters where there is one, else strings.
      if (H5Tis_variable_str(stored_.get()) <= 0 && H5Sget_simple_extent_type(space_.get()) != H5S_SIMPLE) return ">S1";
      size_t longest = 1;
      const auto note = [&](const Json& item) {
        if (item.is_string()) longest = std::max(longest, item.get_ref<const std::string&>().size());
      };
      if (value.is_array())
        for (const Json& item : value) note(item);
      else
        note(value);
      return fmt::format("|S{}", longest);
    }
    default: return {};
  }
}

Json AttributeReader::stored_type(bool netcdf) const {
  const hid_t type = stored_.get();
  switch (class_) {
    case H5T_INTEGER:
      if (H5Tequal(type, H5T_STD_I64LE) > 0) return {};
      break;
    case H5T_FLOAT:
      if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return {};
      break;
    case H5T_STRING:
      if (netcdf) return {};  // a copy has characters or strings, which programs of netCDF read alike
      if (H5Tis_variable_str(type) > 0 && H5Tget_cset(type) == H5T_CSET_UTF8 && H5Tget_strpad(type) == H5T_STR_NULLTERM)
        return {};
      break;
    case H5T_ENUM:
      if (is_boolean(type) && !netcdf) return {};
      break;
    default: break;
  }
  return describe_type(type);
}

struct NamedAttribute {
  std::string name;
  H5O_msg_crt_idx_t order = 0;  // of creation, if the object stores that
};

herr_t collect_name(hid_t, const char* name, const H5A_info_t* info, void* to) {
  try {
    static_cast<std::vector<NamedAttribute>*>(to)->push_back({name, info->corder});
    return 0;
  } catch (const std::exception&) {
    return -1;  // out of memory; no exception may leave a callback of a C library
  }
}

struct AttributeCollector {
  const AttributeRules& rules;
  std::string_view object;
  uint64_t file_bytes;
  std::vector<LeftOutAttribute>* left_out = nullptr;
  std::set<std::string> as_json{};  // names, see kJsonAttributes
  std::vector<Attribute> attributes{};
  uint64_t seen = 0;      // bytes of attributes in the file
  uint64_t extended = 0;  // seconds

  // The step may take longer by what was really read, but a file that refers to the same bytes again and again gets no
  // more time than one of this size needs.
  void extend(hid_t attribute) {
    constexpr uint64_t kBytesPerSecond = uint64_t{1} << 20;  // lower bound for the conversion to JSON
    seen = std::min<uint64_t>(seen + H5Aget_storage_size(attribute), file_bytes);
    for (; extended < seen / kBytesPerSecond; ++extended) extend_step(1);
  }

  void add(hid_t holder, const char* name) {
    if (is_hidden_attribute(name, rules)) return;
    const Handle attribute(H5Aopen(holder, name, H5P_DEFAULT));
    if (!attribute) return omit(name, fail_library(EIO, "cannot be opened").error());
    const AttributeReader reader(attribute.get());
    auto value = reader.value(rules.netcdf);
    if (!value) return omit(name, value.error());
    extend(attribute.get());
    const bool tells_dimensions =
        !rules.group && std::ranges::find(kDimensionReferences, std::string_view(name)) != kDimensionReferences.end();
    if (!*value && tells_dimensions) return;  // they are shown by their names
    if (!*value) return omit(name, {EOPNOTSUPP, "its type, a reference, has no form in Zarr"});
    if (!rules.group && std::string_view(name) == "CLASS" && **value == kScaleClass) return;
    std::string type = reader.nczarr_type(**value);
    std::string shown = escape_attribute_name(name);
    if (as_json.contains(shown)) {
      **value = value_of_text(std::move(**value));
      if (!(*value)->is_string()) type.clear();
    }
    Json stored_type = std::string_view(name) == kFillAttribute ? Json() : reader.stored_type(rules.netcdf);
    attributes.push_back({std::move(shown), std::move(**value), std::move(type), std::move(stored_type)});
  }

  void omit(const char* name, Error error) const {
    if (error.code == EOPNOTSUPP)
      log::debug("{}: attribute \"{}\" is left out: {}", object, name, error.reason);
    else
      log::warning("{}: attribute \"{}\" is left out: {}", object, name, error.reason);
    if (left_out != nullptr) left_out->push_back({escape_attribute_name(name), std::move(error)});
  }
};

bool tracks_order(hid_t holder) {
  const Result<Handle> properties = creation_properties_of(holder);
  unsigned flags = 0;
  return properties && H5Pget_attr_creation_order(properties->get(), &flags) >= 0 &&
         (flags & H5P_CRT_ORDER_TRACKED) != 0;
}

// Opens an attribute with a type of this class; invalid if there is none.
Handle open_of_class(hid_t holder, const char* name, H5T_class_t wanted) {
  if (H5Aexists(holder, name) <= 0) return Handle();
  Handle attribute(H5Aopen(holder, name, H5P_DEFAULT));
  if (!attribute) return Handle();
  const Handle type(H5Aget_type(attribute.get()));
  return H5Tget_class(type.get()) == wanted ? std::move(attribute) : Handle();
}

}  // namespace

bool is_hidden_attribute(std::string_view name, const AttributeRules& rules) {
  if (name == kJsonAttributes) return true;
  if (name == kPhonyDimensions) return !rules.group;  // follows from the names of the dimensions
  if (name == kDimensions) return !rules.group;       // the dimensions are shown under this name
  if (rules.netcdf && std::ranges::find(kNetcdfHidden, name) != kNetcdfHidden.end()) return true;
  return rules.scale && std::ranges::find(kScaleHidden, name) != kScaleHidden.end();
}

Result<std::optional<Json>> read_attribute(hid_t attribute, const AttributeRules& rules) {
  return AttributeReader(attribute).value(rules.netcdf);
}

// libhdf5 1.10 crashes when it collects attributes in a table, of which one is damaged. It does so for attributes in
// the object header, unless they were decoded before, which the search for a name does; and to sort those in a heap.
Result<std::vector<std::string>> attribute_names(hid_t holder) {
  const auto failed = [] { return fail_library(EIO, "the attributes cannot be listed"); };
  if (H5Aexists(holder, "\x01 no attribute has this name") < 0) return failed();
  std::vector<NamedAttribute> found;
  hsize_t position = 0;
  if (H5Aiterate2(holder, H5_INDEX_NAME, H5_ITER_NATIVE, &position, collect_name, &found) < 0) return failed();
  std::ranges::sort(found, {}, &NamedAttribute::name);
  if (tracks_order(holder)) std::ranges::stable_sort(found, {}, &NamedAttribute::order);
  std::vector<std::string> names;
  names.reserve(found.size());
  for (NamedAttribute& attribute : found) names.push_back(std::move(attribute.name));
  return names;
}

Result<std::vector<Attribute>> read_attributes(hid_t holder, const AttributeRules& rules, std::string_view object,
                                               uint64_t file_bytes, std::vector<LeftOutAttribute>* left_out) {
  const Result<std::vector<std::string>> names = attribute_names(holder);
  if (!names) return fail(names.error().code, "{}: {}", object, names.error().reason);
  AttributeCollector collector{rules, object, file_bytes, left_out};
  if (std::ranges::find(*names, kJsonAttributes) != names->end()) {
    if (auto listed = json_attributes(holder))
      collector.as_json = *std::move(listed);
    else
      log::warning("{}: attributes that are objects are shown as text: {}", object, listed.error().reason);
  }
  for (const std::string& name : *names) collector.add(holder, name.c_str());
  tell_floats(collector.attributes, rules.group ? "" : kFillAttribute);  // of a dataset it is an element
  return std::move(collector.attributes);
}

std::set<std::string> parse_json_attributes(const Json& list) {
  std::set<std::string> names;
  if (list.is_string() && list.get_ref<const std::string&>().size() > kMaxJsonAttributes) return names;
  const Json parsed = value_of_text(list);
  if (!parsed.is_array()) return names;
  for (const Json& name : parsed)
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

Result<std::set<std::string>> json_attributes(hid_t holder) {
  const auto about = [](const Error& error) {
    return fail(error.code, "attribute \"{}\": {}", kJsonAttributes, error.reason);
  };
  const htri_t exists = H5Aexists(holder, kJsonAttributes);
  if (exists == 0) return std::set<std::string>();
  const Handle attribute(exists > 0 ? H5Aopen(holder, kJsonAttributes, H5P_DEFAULT) : H5I_INVALID_HID);
  if (!attribute) return about(fail_library(EIO, "cannot be opened").error());
  const auto list = AttributeReader(attribute.get()).value(true);
  if (!list) return about(list.error());
  return *list ? parse_json_attributes(**list) : std::set<std::string>();
}

Json value_of_text(Json text) {
  if (!text.is_string()) return text;
  Result<Json> value = parse_json(text.get_ref<const std::string&>());
  return value && (value->is_structured() || is_large_integer(*value)) ? std::move(*value) : std::move(text);
}

std::string text_attribute(hid_t holder, const char* name) {
  const Handle attribute = open_of_class(holder, name, H5T_STRING);
  if (!attribute) return {};
  const auto value = AttributeReader(attribute.get()).value(true);
  return value && *value && (*value)->is_string() ? (*value)->get<std::string>() : std::string();
}

std::vector<int> integer_attribute(hid_t holder, const char* name) {
  const Handle attribute = open_of_class(holder, name, H5T_INTEGER);
  if (!attribute) return {};
  const Handle space(H5Aget_space(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 1 || count > 64) return {};
  std::vector<int> values(static_cast<size_t>(count));
  if (H5Aread(attribute.get(), H5T_NATIVE_INT, values.data()) < 0) return {};
  return values;
}

}  // namespace codecfs::hdf5
