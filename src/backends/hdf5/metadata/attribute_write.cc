// Chooses types for attributes and writes them; the header lists the types. Tries the stored type first: each number or
// text is converted to it and back, and must not change (attribute_encode.h).

#include "backends/hdf5/metadata/attribute_write.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/api/link_notes.h"
#include "backends/api/names.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/attribute_encode.h"
#include "backends/hdf5/metadata/type_make.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::hdf5 {
namespace {

// With an old object header, an attribute is one message of at most 64 KiB, including name, type and shape.
constexpr uint64_t kOldHeaderLimit = 64'000;
constexpr size_t kLongestName = 32'000;
constexpr uint64_t kMessage = 256;  // estimated bytes of an attribute besides name and value

constexpr std::array kAlwaysKept = {"_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict",
                                    "_NCProperties", "DIMENSION_LIST",      "REFERENCE_LIST"};

bool is_kept(std::string_view name, const AttributeRules& rules) {
  return std::ranges::find(kAlwaysKept, name) != kAlwaysKept.end() || is_hidden_attribute(name, rules);
}

}  // namespace

// Builds the new value of one attribute; `old` is the existing attribute, if any.
class ValueBuilder {
 public:
  ValueBuilder(const AttributeRules& rules, hid_t old, const Attribute& attribute, const Json& stored_type = {})
      : rules_(rules),
        old_(old),
        json_(attribute.value),
        given_(attribute.type),
        stored_(make_described(stored_type, rules.native_complex)),
        dims_(depth_of(json_)) {
    if (old_ < 0) return;
    old_type_ = Handle(H5Aget_type(old_));
    old_space_ = Handle(H5Aget_space(old_));
  }

  Result<AttributeChange::Value> build() {
    Result<> made = check();
    if (made && !make_stored() && !keep_type()) made = make_anew();
    const bool was_compound = old_type_ && H5Tget_class(old_type_.get()) == H5T_COMPOUND;
    const bool may_be_text = json_.is_structured() || is_large_integer(json_);
    if (!made && made.error().code == EINVAL && may_be_text && !was_compound) made = make_json_text();
    CODECFS_TRY(made);
    if (!value_.type || !value_.memory || !value_.space) return fail_library(EIO, "its type cannot be made");
    return std::move(value_);
  }

 private:
  [[nodiscard]] Result<> check() {
    if (dims_.size() > H5S_MAX_RANK) return fail(EINVAL, "a list nested more than {} deep", H5S_MAX_RANK);
    return check_texts(json_);
  }

  static Result<> check_texts(const Json& value) {
    if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
      return fail(EINVAL, "a text of HDF5 cannot hold a zero byte");
    if (value.is_structured())
      for (const Json& item : value) CODECFS_TRY(check_texts(item));
    return {};
  }

  void set_shape(std::span<const hsize_t> dims) {
    // netCDF stores single numbers as lists of one element; these are shown as single values.
    const bool text = H5Tget_class(value_.type.get()) == H5T_STRING && H5Tis_variable_str(value_.type.get()) <= 0;
    if (json_.is_null()) {
      value_.space = Handle(H5Screate(H5S_NULL));
    } else if (dims.empty() && rules_.netcdf && !text && !was_scalar()) {
      const hsize_t one = 1;
      value_.space = Handle(H5Screate_simple(1, &one, nullptr));
    } else if (dims.empty() || (rules_.netcdf && text && dims.size() == 1 && dims[0] == 1)) {
      value_.space = Handle(H5Screate(H5S_SCALAR));
    } else {
      value_.space = Handle(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    }
  }

  [[nodiscard]] bool was_scalar() const {
    return old_space_ && H5Sget_simple_extent_type(old_space_.get()) == H5S_SCALAR;
  }

  bool encode(std::span<const hsize_t> dims) {
    std::vector<const Json*> items;
    if (!json_.is_null() && !flatten(json_, dims, items)) return false;
    value_.texts.clear();
    return encode_items(value_.memory.get(), value_.type.get(), items, value_.bytes, value_.texts);
  }

  // Fixed-length strings and non-ASCII text may change the type's length and character set.
  void fit_text(std::span<const Json* const> items) {
    const hid_t type = value_.type.get();
    size_t longest = 0;
    bool ascii = true;
    for (const Json* item : items) {
      if (!item->is_string()) return;
      const auto& text = item->get_ref<const std::string&>();
      longest = std::max(longest, text.size());
      ascii &= is_ascii(text);
    }
    if (!ascii) H5Tset_cset(type, H5T_CSET_UTF8);
    if (H5Tis_variable_str(type) > 0) return;
    if (H5Tget_strpad(type) == H5T_STR_NULLTERM && !rules_.netcdf) ++longest;
    H5Tset_size(type, std::max<size_t>(longest, 1));
  }

  // A value of the type that it had in another file; false if it is not known, or the value does not fit.
  bool make_stored() {
    if (!stored_) return false;
    const size_t inner = json_.is_null() ? 0 : lists_in(stored_.get());
    if (dims_.size() < inner) return false;
    const std::span dims = std::span(dims_).first(json_.is_null() ? 0 : dims_.size() - inner);
    value_.type = Handle(H5Tcopy(stored_.get()));
    value_.memory = Handle(H5Tget_native_type(value_.type.get(), H5T_DIR_ASCEND));
    if (!value_.memory) value_.memory = Handle(H5Tcopy(value_.type.get()));
    if (encode(dims)) {
      set_shape(dims);
      return true;
    }
    value_ = {};
    return false;
  }

  bool keep_type() {
    if (!old_type_ || H5Tdetect_class(old_type_.get(), H5T_REFERENCE) > 0) return false;
    value_.type = Handle(H5Tcopy(old_type_.get()));
    const size_t inner = lists_in(value_.type.get());
    if (!json_.is_null() && dims_.size() < inner) return false;
    const std::span dims = std::span(dims_).first(json_.is_null() ? 0 : dims_.size() - inner);
    if (rules_.netcdf && dims.size() > 1) return false;
    if (H5Tget_class(value_.type.get()) == H5T_STRING) {
      std::vector<const Json*> items;
      if (!json_.is_null() && !flatten(json_, dims, items)) return false;
      fit_text(items);
    }
    // netCDF distinguishes a list of strings from a single text.
    if (rules_.netcdf && !dims.empty() && H5Tget_class(value_.type.get()) == H5T_STRING &&
        H5Tis_variable_str(value_.type.get()) <= 0)
      return false;
    value_.memory = Handle(H5Tget_native_type(value_.type.get(), H5T_DIR_ASCEND));
    if (!value_.memory || !encode(dims)) return false;
    set_shape(dims);
    value_.in_place =
        H5Tequal(value_.type.get(), old_type_.get()) > 0 && H5Sextent_equal(value_.space.get(), old_space_.get()) > 0;
    return true;
  }

  Result<> make_anew() {
    if (json_.is_object()) return fail(EINVAL, "an object cannot be an HDF5 attribute");
    std::vector<const Json*> items;
    if (!flatten(json_, dims_, items))
      return fail(EINVAL, "its lists are not of one length, or values and lists are mixed");
    if (rules_.netcdf && dims_.size() > 1) return fail(EINVAL, "an attribute of netCDF cannot be a list of lists");
    if (make_given(items)) return {};
    CODECFS_TRY(choose_type(items));
    value_.memory = Handle(H5Tcopy(value_.type.get()));
    const hid_t type = value_.type.get();
    const H5T_class_t kind = H5Tget_class(type);
    if (kind == H5T_INTEGER || kind == H5T_FLOAT)  // STD types, so that files do not depend on the machine
      value_.memory = Handle(H5Tget_native_type(type, H5T_DIR_ASCEND));
    if (rules_.netcdf && !items.empty() && items[0]->is_boolean()) {
      value_.bytes.clear();
      for (const Json* item : items) value_.bytes.push_back(item->get<bool>() ? std::byte{1} : std::byte{0});
    } else if (!encode(dims_)) {
      return fail(EINVAL, "no type represents all of its numbers exactly");
    }
    set_shape(dims_);
    if (!old_type_ || H5Tequal(type, old_type_.get()) <= 0) return {};
    value_.in_place = H5Sextent_equal(value_.space.get(), old_space_.get()) > 0;
    return {};
  }

  Result<> make_json_text() {
    value_ = {};
    value_.is_json = true;
    value_.type = make_text();
    value_.memory = Handle(H5Tcopy(value_.type.get()));
    value_.space = Handle(H5Screate(H5S_SCALAR));
    const Json text = print_json(json_);
    const std::vector<const Json*> items{&text};
    if (!encode_items(value_.memory.get(), value_.type.get(), items, value_.bytes, value_.texts))
      return fail(EINVAL, "its JSON text cannot be stored");
    value_.in_place = old_type_ && H5Tequal(value_.type.get(), old_type_.get()) > 0 &&
                      H5Sextent_equal(value_.space.get(), old_space_.get()) > 0;
    return {};
  }

  // A value of the type that is given with it; false if there is none, or the value does not fit.
  bool make_given(std::span<const Json* const> items) {
    if (given_.size() < 2) return false;
    const bool is_text = json_.is_string() || (!items.empty() && items[0]->is_string());
    if (given_ == ">S1" && dims_.empty() && (is_text || json_.is_null())) {
      if (is_text) choose_characters();
      if (json_.is_null() || json_.get_ref<const std::string&>().empty()) return make_empty(Handle(H5Tcopy(H5T_C_S1)));
    } else if (given_[1] == 'S' && is_text) {
      value_.type = make_text();
    } else if (const auto known = parse_dtype(given_); known && given_[1] != 'S' && !is_text) {
      Handle type = make_number(*known);
      if (!type) return false;
      if (json_.is_null()) return make_empty(std::move(type));
      value_.type = std::move(type);
    } else {
      return false;
    }
    value_.memory = Handle(H5Tget_native_type(value_.type.get(), H5T_DIR_ASCEND));
    if (!encode(dims_)) return false;
    set_shape(dims_);
    return true;
  }

  // netCDF's attribute without a value.
  bool make_empty(Handle type) {
    value_.type = std::move(type);
    value_.memory = Handle(H5Tcopy(value_.type.get()));
    value_.space = Handle(H5Screate(H5S_NULL));
    return true;
  }

  static Handle make_number(const DataType& type) {
    const bool is_number = type.kind == TypeKind::signed_int || type.kind == TypeKind::unsigned_int ||
                           (type.kind == TypeKind::floating && type.size >= sizeof(float));
    if (!is_number) return Handle();
    auto made = make_type(type, {});
    return made ? std::move(*made) : Handle();
  }

  Result<> choose_type(std::span<const Json* const> items) {
    const auto all = [&](auto is) { return std::ranges::all_of(items, is); };
    if (items.empty() || json_.is_null()) {
      value_.type = Handle(H5Tcopy(H5T_IEEE_F64LE));
    } else if (all([](const Json* item) { return item->is_string(); })) {
      value_.type = make_text();
      if (rules_.netcdf && dims_.empty()) choose_characters();
    } else if (all([](const Json* item) { return item->is_boolean(); })) {
      value_.type = rules_.netcdf ? Handle(H5Tcopy(H5T_STD_I8LE)) : make_boolean();
    } else if (!all([](const Json* item) { return item->is_number(); })) {
      const auto odd =
          std::ranges::find_if(items, [](const Json* item) { return item->is_structured() || item->is_null(); });
      if (std::ranges::any_of(items, [](const Json* item) { return is_large_integer(*item); }))
        return fail(EINVAL, "an HDF5 attribute cannot hold an integer of more than 64 bits");
      if (odd != items.end())
        return fail(EINVAL, "a list that holds {} cannot be an HDF5 attribute", (*odd)->type_name());
      return fail(EINVAL, "the values of a list must be of one kind: text, numbers or booleans");
    } else if (!all([](const Json* item) { return item->is_number_integer(); })) {
      value_.type = Handle(H5Tcopy(H5T_IEEE_F64LE));
    } else {
      const bool large = std::ranges::any_of(items, [](const Json* item) {
        return item->is_number_unsigned() && item->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
      });
      value_.type = Handle(H5Tcopy(large ? H5T_STD_U64LE : H5T_STD_I64LE));
    }
    return {};
  }

  // NC_CHAR: as long as the text, without a terminating zero.
  void choose_characters() {
    const auto& text = json_.get_ref<const std::string&>();
    value_.type = Handle(H5Tcopy(H5T_C_S1));
    H5Tset_size(value_.type.get(), std::max<size_t>(text.size(), 1));
    if (!is_ascii(text)) H5Tset_cset(value_.type.get(), H5T_CSET_UTF8);
  }

  const AttributeRules& rules_;
  hid_t old_;
  const Json& json_;
  const std::string& given_;  // Attribute::type
  const Handle stored_;       // Attribute::stored_type
  Dims dims_;
  Handle old_type_;
  Handle old_space_;
  AttributeChange::Value value_;
};

Result<AttributeChange> AttributeChange::prepare(hid_t holder, const AttributeRules& rules, std::string_view object,
                                                 std::span<const Attribute> set, std::span<const std::string> remove) {
  AttributeChange change;
  change.holder_ = holder;
  change.rules_ = rules;
  change.object_ = object;
  if (holder >= 0) {
    CODECFS_ASSIGN(change.names_, attribute_names(holder));
    // Another program may have removed some of these attributes.
    CODECFS_ASSIGN(const std::set<std::string> listed, json_attributes(holder));
    for (const std::string& name : change.names_)
      if (const std::string shown = escape_attribute_name(name); listed.contains(shown)) change.as_json_.insert(shown);
    change.old_header_ = header_version(holder) < 2;
  }
  const std::set<std::string> as_json = change.as_json_;
  const auto types = std::ranges::find(set, kStoredTypes, &Attribute::name);
  const Json stored = types == set.end() ? Json() : parse_stored_types(types->value);
  const Json stored_types = member(stored, "attributes");
  for (const std::string& name : remove)
    if (name != kFloatAttributes) CODECFS_TRY(change.remove(name));
  std::vector<Attribute> meant(set.begin(), set.end());
  restore_floats(meant);
  for (Attribute& attribute : meant)
    if (attribute.name != kJsonAttributes && attribute.name != kStoredLinks &&
        (attribute.name != kStoredTypes || (rules.group && stored.contains("type")))) {
      const Json stored_type = member(stored_types, attribute.name);
      CODECFS_TRY(change.set(std::move(attribute), stored_type));
    }
  for (const Attribute& attribute : set)
    if (attribute.name == kJsonAttributes) change.take_json_names(attribute.value);
  CODECFS_TRY(change.list_json(as_json));
  return change;
}

Result<> AttributeChange::remove(const std::string& name) {
  const auto raw = std::ranges::find(names_, name, escape_attribute_name);
  if (is_hidden_attribute(name, rules_) || raw == names_.end())
    return fail(ENODATA, "{} has no attribute \"{}\"", object_, name);
  if (is_kept(name, rules_)) return fail(EPERM, "{}: \"{}\" is reserved for HDF5 and netCDF", object_, name);
  const Handle old(H5Aopen(holder_, raw->c_str(), H5P_DEFAULT));
  if (!old) return fail_library(EIO, "{}: attribute \"{}\"", object_, name);
  CODECFS_ASSIGN(const auto shown, read_attribute(old.get(), rules_));
  if (!shown) return fail(ENODATA, "{} has no attribute \"{}\" that has a JSON form", object_, name);
  removed_.push_back(*raw);
  as_json_.erase(name);
  return {};
}

// Programs that copy all attributes, such as xarray, have copied the list as well, and the texts that it names.
void AttributeChange::take_json_names(const Json& list) {
  for (const std::string& name : parse_json_attributes(list)) {
    const auto raw = std::ranges::find(names_, name, escape_attribute_name);
    const bool is_new = std::ranges::find(values_, unescape_attribute_name(name), &Value::name) != values_.end();
    const bool stays = raw != names_.end() && std::ranges::find(removed_, *raw) == removed_.end();
    if (is_new || stays) as_json_.insert(name);
  }
}

Result<> AttributeChange::list_json(const std::set<std::string>& before) {
  if (as_json_ == before) return {};
  const bool is_there = std::ranges::find(names_, kJsonAttributes) != names_.end();
  if (as_json_.empty()) {
    if (is_there) removed_.emplace_back(kJsonAttributes);
    return {};
  }
  Handle old;
  if (is_there) {
    old = Handle(H5Aopen(holder_, kJsonAttributes, H5P_DEFAULT));
    if (!old) return fail_library(EIO, "{}: attribute \"{}\"", object_, kJsonAttributes);
  }
  const std::string text = print_json(Json(as_json_));
  if (text.size() > kMaxJsonAttributes)
    return fail(EFBIG, "{}: the names of its attributes that are objects exceed 1 MiB", object_);
  const Attribute list{kJsonAttributes, Json(text)};
  CODECFS_ASSIGN(Value value, ValueBuilder(rules_, old.get(), list).build());
  value.name = kJsonAttributes;
  value.replaces = is_there;
  CODECFS_TRY(check_size(value));
  values_.push_back(std::move(value));
  return {};
}

Result<> AttributeChange::set(Attribute attribute, const Json& stored_type) {
  const std::string& name = attribute.name;
  if (name == kDimensions && !rules_.group)
    return fail(EINVAL, "{}: \"{}\" is {}, not a name for each dimension: HDF5 has no form for it", object_, name,
                print_json(attribute.value));
  const bool makes_scale = !rules_.group && name == "CLASS" && *attribute.value == kScaleClass;
  if (is_kept(name, rules_) || makes_scale)
    return fail(EPERM, "{}: \"{}\" is reserved for HDF5 and netCDF", object_, name);
  if (name.empty() || name.size() > kLongestName || name.find('\0') != std::string::npos)
    return fail(EINVAL, "{}: an attribute of HDF5 cannot have the name \"{}\"", object_, name.substr(0, 64));
  if (std::ranges::find(values_, name, &Value::name) != values_.end())
    return fail(EINVAL, "{}: attribute \"{}\" is given twice", object_, name);
  const auto raw = std::ranges::find(names_, name, escape_attribute_name);
  if (raw != names_.end()) std::erase(removed_, *raw);
  Handle old;
  if (raw != names_.end()) {
    old = Handle(H5Aopen(holder_, raw->c_str(), H5P_DEFAULT));
    if (!old) return fail_library(EIO, "{}: attribute \"{}\"", object_, name);
    CODECFS_ASSIGN(auto shown, read_attribute(old.get(), rules_));
    if (shown && as_json_.contains(name)) shown = value_of_text(*std::move(shown));
    if (!shown)
      return fail(EPERM, "{}: attribute \"{}\" is of a type that has no JSON form: it is not replaced", object_, name);
    if (same_value(*shown, attribute.value) || same_value(with_float_texts(*shown), attribute.value)) return {};
    if (H5Tget_class(Handle(H5Aget_type(old.get())).get()) == H5T_FLOAT) attribute.value = with_floats(attribute.value);
    const bool one = rules_.netcdf && attribute.value->is_array() && attribute.value->size() == 1 &&
                     !(*attribute.value)[0].is_structured();
    if (one && same_value(*shown, (*attribute.value)[0])) return {};
  }
  auto value = ValueBuilder(rules_, old.get(), attribute, stored_type).build();
  if (!value) return fail(value.error().code, "{}: attribute \"{}\": {}", object_, name, value.error().reason);
  value->name = old ? *raw : unescape_attribute_name(name);
  value->replaces = static_cast<bool>(old);
  CODECFS_TRY(check_size(*value));
  if (value->is_json)
    as_json_.insert(name);
  else
    as_json_.erase(name);
  values_.push_back(std::move(*value));
  return {};
}

Result<> AttributeChange::add_element(std::string_view name, hid_t type, std::vector<std::byte> element,
                                      std::string text) {
  Value value;
  value.name = name;
  value.type = Handle(H5Tcopy(type));
  value.memory = Handle(H5Tcopy(type));
  value.replaces = std::ranges::find(names_, name) != names_.end();
  const Handle old(value.replaces ? H5Aopen(holder_, value.name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID);
  const Handle shape(old ? H5Aget_space(old.get()) : H5I_INVALID_HID);
  const hsize_t one = 1;  // netCDF stores single numbers as arrays of length one
  const bool is_text = H5Tget_class(type) == H5T_STRING;
  const bool is_array = rules_.netcdf || (shape && H5Sget_simple_extent_type(shape.get()) == H5S_SIMPLE);
  value.space = Handle(is_text || !is_array ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &one, nullptr));
  value.bytes = std::move(element);
  if (H5Tis_variable_str(type) > 0) {
    const char* const stored = value.texts.emplace_back(std::move(text)).c_str();
    value.bytes.resize(sizeof stored);
    std::memcpy(value.bytes.data(), &stored, sizeof stored);
  }
  CODECFS_TRY(check_size(value));
  values_.push_back(std::move(value));
  return {};
}

Result<> AttributeChange::check_size(const Value& value) const {
  const hssize_t count = H5Sget_simple_extent_npoints(value.space.get());
  const uint64_t size = static_cast<uint64_t>(std::max<hssize_t>(count, 0)) *
                        std::max(H5Tget_size(value.type.get()), H5Tget_size(value.memory.get()));
  if (size > kMaxAttribute)
    return fail(EFBIG, "{}: attribute \"{}\" has {} bytes, more than the limit of 16 MiB", object_, value.name, size);
  if (old_header_ && size + value.name.size() + kMessage > kOldHeaderLimit)
    return fail(EFBIG,
                "{}: attribute \"{}\" has {} bytes, and an object in HDF5's oldest format holds none over 64 KiB; "
                "h5repack -l or nccopy make a file in a newer one",
                object_, value.name, size);
  return {};
}

uint64_t AttributeChange::bytes() const {
  uint64_t bytes = 0;
  for (const Value& value : values_) {
    bytes += value.name.size() + 2 * value.bytes.size() + kMessage;
    for (const std::string& text : value.texts) bytes += text.size() + kMessage;
  }
  return bytes + kMessage * removed_.size();
}

Result<> AttributeChange::apply(hid_t holder) const {
  const auto failed = [&](const std::string& name) { return fail_library(EIO, "{}: attribute \"{}\"", object_, name); };
  for (const std::string& name : removed_)
    if (H5Adelete(holder, name.c_str()) < 0) return failed(name);
  for (const Value& value : values_) {
    const char* name = value.name.c_str();
    if (value.replaces && !value.in_place && H5Adelete(holder, name) < 0) return failed(value.name);
    const Handle attribute(
        value.in_place ? H5Aopen(holder, name, H5P_DEFAULT)
                       : H5Acreate2(holder, name, value.type.get(), value.space.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!attribute) return failed(value.name);
    if (!value.bytes.empty() && H5Awrite(attribute.get(), value.memory.get(), value.bytes.data()) < 0)
      return failed(value.name);
  }
  return {};
}

}  // namespace codecfs::hdf5
