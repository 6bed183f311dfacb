#include "backends/hdf5/metadata/type_notes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/names.h"
#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/type_make.h"
#include "backends/hdf5/metadata/type_map.h"
#include "base/utf8.h"
#include "model/data_type.h"

namespace codecfs::hdf5 {
namespace {

constexpr int kMaxDepth = 32;
constexpr uint64_t kMaxSize = uint64_t{16} << 20;  // bytes of an element
constexpr size_t kMaxMembers = 10'000;             // libhdf5 compares each name with all others
constexpr std::array<std::pair<H5T_str_t, const char*>, 3> kPads{
    {{H5T_STR_NULLTERM, "zero"}, {H5T_STR_NULLPAD, "null"}, {H5T_STR_SPACEPAD, "space"}}};

// A name of the library's, which it frees; none if JSON cannot hold it.
std::optional<std::string> taken(char* name) {
  if (name == nullptr) return std::nullopt;
  std::string text(name);
  H5free_memory(name);
  return is_utf8(text) ? std::optional(std::move(text)) : std::nullopt;
}

Json described(hid_t type, int depth);

Json described_number(hid_t type) {
  const auto mapped = map_type(type);
  return mapped && !mapped->unreadable && mapped->shape.empty() ? print_dtype(mapped->type) : Json();
}

Json described_string(hid_t type) {
  const H5T_str_t pad = H5Tget_strpad(type);
  const auto known = std::ranges::find_if(kPads, [&](const auto& one) { return one.first == pad; });
  if (known == kPads.end()) return {};
  const Json size = H5Tis_variable_str(type) > 0 ? Json() : Json(H5Tget_size(type));
  return {{"string", size}, {"pad", known->second}, {"utf8", H5Tget_cset(type) == H5T_CSET_UTF8}};
}

Json described_enum(hid_t type) {
  const Handle base(H5Tget_super(type));
  const Handle native(H5Tget_native_type(base.get(), H5T_DIR_ASCEND));
  const int count = H5Tget_nmembers(type);
  if (!native || count < 0) return {};
  const bool is_signed = H5Tget_sign(native.get()) == H5T_SGN_2;
  Json members = Json::array();
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<std::byte, 64> value{};
    if (H5Tget_size(base.get()) > value.size() || H5Tget_member_value(type, i, value.data()) < 0) return {};
    if (H5Tconvert(base.get(), is_signed ? H5T_NATIVE_LLONG : H5T_NATIVE_ULLONG, 1, value.data(), nullptr,
                   H5P_DEFAULT) < 0)
      return {};
    const auto name = taken(H5Tget_member_name(type, i));
    if (!name) return {};
    long long number = 0;
    std::copy_n(value.begin(), sizeof number, reinterpret_cast<std::byte*>(&number));
    members.push_back(Json::array({*name, is_signed ? Json(number) : Json(static_cast<unsigned long long>(number))}));
  }
  return {{"enum", std::move(members)}, {"of", described_number(base.get())}};
}

Json described_compound(hid_t type, int depth) {
  Json members = Json::array();
  const int count = H5Tget_nmembers(type);
  for (unsigned i = 0; i < static_cast<unsigned>(std::max(count, 0)); ++i) {
    const Handle member(H5Tget_member_type(type, i));
    Json of = described(member.get(), depth + 1);
    const auto name = taken(H5Tget_member_name(type, i));
    if (of.is_null() || !name) return {};
    members.push_back(Json::array({*name, H5Tget_member_offset(type, i), std::move(of)}));
  }
  return {{"compound", H5Tget_size(type)}, {"members", std::move(members)}};
}

Json described(hid_t type, int depth) {
  if (depth > kMaxDepth) return {};
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT: return described_number(type);
    case H5T_STRING: return described_string(type);
    case H5T_ENUM: return described_enum(type);
    case H5T_BITFIELD: return {{"bits", H5Tget_size(type)}, {"big", H5Tget_order(type) == H5T_ORDER_BE}};
    case H5T_OPAQUE: {
      const auto tag = taken(H5Tget_tag(type));
      return tag ? Json{{"opaque", H5Tget_size(type)}, {"tag", *tag}} : Json();
    }
    case H5T_COMPOUND: return described_compound(type, depth);
    case H5T_ARRAY:
    case H5T_VLEN: {
      const Handle base(H5Tget_super(type));
      Json of = described(base.get(), depth + 1);
      if (of.is_null()) return {};
      if (H5Tget_class(type) == H5T_VLEN) return {{"sequence", std::move(of)}};
      std::array<hsize_t, H5S_MAX_RANK> dims{};
      const int rank = H5Tget_array_dims2(type, dims.data());
      if (rank < 1) return {};
      return {{"array", std::vector<hsize_t>(dims.begin(), dims.begin() + rank)}, {"of", std::move(of)}};
    }
    default: {
      const Handle part = complex_part(type);
      Json of = part ? described_number(part.get()) : Json();
      return of.is_null() ? Json() : Json{{"complex", std::move(of)}};
    }
  }
}

// --- the inverse

struct Depth {
  int levels = 0;
  bool native_complex = false;

  [[nodiscard]] Depth inner() const { return {levels + 1, native_complex}; }
};

std::optional<uint64_t> size_in(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto size = json.get<uint64_t>();
  return size > 0 && size <= kMaxSize ? std::optional(size) : std::nullopt;
}

// A text that is a name in HDF5.
const std::string* name_in(const Json& json) {
  const auto* const text = json.get_ptr<const std::string*>();
  return text != nullptr && text->find('\0') == text->npos ? text : nullptr;
}

Handle made(const Json& json, Depth depth);

Handle made_string(const Json& json) {
  const Json pad = member(json, "pad");
  const auto known = std::ranges::find_if(kPads, [&](const auto& one) { return pad == one.second; });
  const bool is_variable = json["string"].is_null();
  const auto size = size_in(json["string"]);
  if (known == kPads.end() || (!is_variable && !size)) return Handle();
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), is_variable ? H5T_VARIABLE : *size);
  H5Tset_strpad(type.get(), known->first);
  if (member(json, "utf8") == true) H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle made_enum(const Json& json, Depth depth) {
  const Handle base = made(member(json, "of"), depth.inner());
  if (!base || H5Tget_class(base.get()) != H5T_INTEGER || !json["enum"].is_array() || json["enum"].size() > kMaxMembers)
    return Handle();
  Handle type(H5Tenum_create(base.get()));
  for (const Json& one : json["enum"]) {
    const std::string* name = one.is_array() && one.size() == 2 ? name_in(one[0]) : nullptr;
    if (name == nullptr || !one[1].is_number_integer()) return Handle();
    std::array<std::byte, 64> value{};
    const auto number = one[1].get<long long>();
    std::copy_n(reinterpret_cast<const std::byte*>(&number), sizeof number, value.begin());
    const hid_t from = one[1].is_number_unsigned() ? H5T_NATIVE_ULLONG : H5T_NATIVE_LLONG;
    if (H5Tconvert(from, base.get(), 1, value.data(), nullptr, H5P_DEFAULT) < 0 ||
        H5Tenum_insert(type.get(), name->c_str(), value.data()) < 0)
      return Handle();
  }
  return type;
}

Handle made_compound(const Json& json, Depth depth) {
  const auto size = size_in(json["compound"]);
  const Json members = member(json, "members");
  if (!size || !members.is_array() || members.empty() || members.size() > kMaxMembers) return Handle();
  Handle type(H5Tcreate(H5T_COMPOUND, *size));
  for (const Json& one : members) {
    const std::string* name = one.is_array() && one.size() == 3 ? name_in(one[0]) : nullptr;
    if (name == nullptr || !one[1].is_number_unsigned()) return Handle();
    const Handle of = made(one[2], depth.inner());
    if (!of || H5Tinsert(type.get(), name->c_str(), one[1].get<uint64_t>(), of.get()) < 0) return Handle();
  }
  return type;
}

Handle made_complex(const Json& json, Depth depth) {
  const Handle part = made(json["complex"], depth.inner());
  if (!part || H5Tget_class(part.get()) != H5T_FLOAT) return Handle();
  if (depth.native_complex) return make_native_complex(part.get());
  const size_t size = H5Tget_size(part.get());
  Handle type(H5Tcreate(H5T_COMPOUND, 2 * size));
  H5Tinsert(type.get(), "r", 0, part.get());
  H5Tinsert(type.get(), "i", size, part.get());
  return type;
}

Handle made_array(const Json& json, Depth depth) {
  const Handle of = made(member(json, "of"), depth.inner());
  const Json& dims = json["array"];
  if (!of || !dims.is_array() || dims.empty() || dims.size() > H5S_MAX_RANK) return Handle();
  std::vector<hsize_t> lengths;
  uint64_t size = H5Tget_size(of.get());
  for (const Json& dim : dims) {
    const auto length = size_in(dim);
    if (!length || *length > kMaxSize / size) return Handle();
    size *= *length;
    lengths.push_back(*length);
  }
  return Handle(H5Tarray_create2(of.get(), static_cast<unsigned>(lengths.size()), lengths.data()));
}

Handle made(const Json& json, Depth depth) {
  if (depth.levels > kMaxDepth) return Handle();
  if (json.is_string()) {
    const auto type = parse_dtype(json);
    auto number = type ? make_type(*type, {}) : fail(EINVAL, "");
    return number ? std::move(*number) : Handle();
  }
  if (!json.is_object()) return Handle();
  if (json.contains("string")) return made_string(json);
  if (json.contains("enum")) return made_enum(json, depth);
  if (json.contains("compound")) return made_compound(json, depth);
  if (json.contains("array")) return made_array(json, depth);
  if (json.contains("sequence")) {
    const Handle of = made(json["sequence"], depth.inner());
    return of ? Handle(H5Tvlen_create(of.get())) : Handle();
  }
  if (json.contains("complex")) return made_complex(json, depth);
  if (json.contains("bits")) {
    const bool is_big = member(json, "big") == true;
    switch (size_in(json["bits"]).value_or(0)) {
      case 1: return Handle(H5Tcopy(H5T_STD_B8LE));
      case 2: return Handle(H5Tcopy(is_big ? H5T_STD_B16BE : H5T_STD_B16LE));
      case 4: return Handle(H5Tcopy(is_big ? H5T_STD_B32BE : H5T_STD_B32LE));
      case 8: return Handle(H5Tcopy(is_big ? H5T_STD_B64BE : H5T_STD_B64LE));
      default: return Handle();
    }
  }
  if (json.contains("opaque")) {
    const Json tag = member(json, "tag");
    const auto size = size_in(json["opaque"]);
    const std::string* text = name_in(tag);
    if (!size || text == nullptr || text->size() >= H5T_OPAQUE_TAG_MAX) return Handle();
    Handle type(H5Tcreate(H5T_OPAQUE, *size));
    return H5Tset_tag(type.get(), text->c_str()) < 0 ? Handle() : std::move(type);
  }
  return Handle();
}

}  // namespace

Json describe_type(hid_t type) {
  Json json = described(type, 0);
  if (json.is_null()) return json;
  const Handle again = make_described(json, true);
  return again && H5Tequal(again.get(), type) > 0 ? json : Json();
}

JsonValue stored_type_of(hid_t type, const MappedType& mapped) {
  if (mapped.unreadable || !mapped.shape.empty() || H5Tget_class(type) == H5T_FLOAT) return {};
  const auto made = make_type(mapped.type, mapped.text ? Json{{"id", "vlen-utf8"}} : Json());
  return made && H5Tequal(made->get(), type) > 0 ? JsonValue() : JsonValue(describe_type(type));
}

Handle make_described(const Json& json, bool native_complex) {
  return made(json, {.levels = 0, .native_complex = native_complex});
}

}  // namespace codecfs::hdf5
