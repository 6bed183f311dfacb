// Converts each dtype. Maps the result back and compares, so that no type changes its meaning.

#include "backends/hdf5/metadata/type_make.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/type_map.h"
#include "model/json.h"
#include "model/small_float.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxElement = uint64_t{16} << 20;  // bytes, as in type_map.cc

std::unexpected<Error> no_type(const DataType& type, std::string_view why) {
  return fail(EOPNOTSUPP, "HDF5 has no type for dtype {}: {}", print_json(print_dtype(type)), why);
}

Handle in_order(const DataType& type, hid_t little) {
  Handle made(H5Tcopy(little));
  if (type.order == ByteOrder::big) H5Tset_order(made.get(), H5T_ORDER_BE);
  return made;
}

Result<Handle> make_integer(const DataType& type) {
  const bool is_signed = type.kind == TypeKind::signed_int;
  switch (type.size) {
    case 1: return in_order(type, is_signed ? H5T_STD_I8LE : H5T_STD_U8LE);
    case 2: return in_order(type, is_signed ? H5T_STD_I16LE : H5T_STD_U16LE);
    case 4: return in_order(type, is_signed ? H5T_STD_I32LE : H5T_STD_U32LE);
    case 8: return in_order(type, is_signed ? H5T_STD_I64LE : H5T_STD_U64LE);
    default: return no_type(type, "it has integers of 1, 2, 4 and 8 bytes");
  }
}

// A little-endian float of 1 or 2 bytes, with infinities and NaN.
Handle small_float(size_t bytes, size_t exponent, size_t mantissa, size_t bias) {
  Handle made(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(made.get(), 8 * bytes - 1, mantissa, exponent, 0, mantissa);
  H5Tset_size(made.get(), bytes);
  H5Tset_ebias(made.get(), bias);
  return made;
}

Result<Handle> make_float(const DataType& type, uint64_t size) {
  if (size == 8) return in_order(type, H5T_IEEE_F64LE);
  if (size == 4) return in_order(type, H5T_IEEE_F32LE);
  if (size != 2) return no_type(type, "only floats of 2, 4 and 8 bytes mean the same on every machine");
  return in_order(type, small_float(2, 5, 10, 15).get());
}

Result<Handle> make_complex(const DataType& type) {
  const uint64_t half = type.size / 2;
  CODECFS_ASSIGN(const Handle part, make_float(type, half));
  Handle made(H5Tcreate(H5T_COMPOUND, type.size));
  H5Tinsert(made.get(), "r", 0, part.get());
  H5Tinsert(made.get(), "i", half, part.get());
  return made;
}

Handle make_bytes(const DataType& type) {
  if (type.kind == TypeKind::raw) return Handle(H5Tcreate(H5T_OPAQUE, type.size));
  Handle made(H5Tcopy(H5T_C_S1));
  H5Tset_size(made.get(), type.size);
  H5Tset_strpad(made.get(), H5T_STR_NULLPAD);
  return made;
}

// numpy's text and times, in h5py's form.
Result<Handle> make_tagged(const DataType& type) {
  const std::optional<std::string> tag = tag_of(type);
  Handle made(H5Tcreate(H5T_OPAQUE, type.size));
  if (!tag || tag->size() >= H5T_OPAQUE_TAG_MAX || H5Tset_tag(made.get(), tag->c_str()) < 0)
    return no_type(type, "no tag of an opaque type can name it");
  return made;
}

Result<Handle> make_any(const DataType& type);

Result<Handle> make_member(const TypeMember& member) {
  CODECFS_ASSIGN(Handle element, make_any(member.type));
  if (member.shape.empty()) return element;
  if (member.shape.size() > H5S_MAX_RANK || std::ranges::find(member.shape, 0U) != member.shape.end())
    return fail(EOPNOTSUPP, "HDF5 has no type for member \"{}\" with its shape", member.name);
  const std::vector<hsize_t> dims(member.shape.begin(), member.shape.end());
  Handle array(H5Tarray_create2(element.get(), static_cast<unsigned>(dims.size()), dims.data()));
  if (!array) return fail_library(EOPNOTSUPP, "member \"{}\"", member.name);
  return array;
}

// Turns members that represent padding (numpy's empty name, or our names for the gaps of a compound) into gaps again.
class PaddingNames {
 public:
  bool next_is_padding(const TypeMember& member) {
    const bool was_gap = std::exchange(in_gap_, false);
    if (member.type.kind != TypeKind::raw || !member.shape.empty()) return false;
    if (!member.name.empty() && (was_gap || member.name != fmt::format("__pad{}", count_))) return false;
    ++count_;
    return in_gap_ = true;
  }

 private:
  unsigned count_ = 0;
  bool in_gap_ = false;
};

Result<Handle> make_structured(const DataType& type) {
  Handle made(H5Tcreate(H5T_COMPOUND, type.size));
  PaddingNames padding;
  uint64_t offset = 0;
  for (const TypeMember& member : type.members) {
    if (!padding.next_is_padding(member)) {
      CODECFS_ASSIGN(const Handle part, make_member(member));
      if (member.name.find('\0') != std::string::npos ||
          H5Tinsert(made.get(), member.name.c_str(), offset, part.get()) < 0)
        return fail(EOPNOTSUPP, "HDF5 cannot hold the member \"{}\" of a compound type", member.name);
    }
    offset += member.size();
  }
  if (H5Tget_nmembers(made.get()) < 1) return no_type(type, "all of its members are padding");
  return made;
}

Result<Handle> make_any(const DataType& type) {
  if (type.kind == TypeKind::object) return no_type(type, "objects inside a structured type");
  if (type.size == 0) return no_type(type, "its elements have no bytes");
  if (type.size > kMaxElement) return no_type(type, "its elements are larger than 16 MiB");
  switch (type.kind) {
    case TypeKind::boolean: return make_boolean();
    case TypeKind::signed_int:
    case TypeKind::unsigned_int: return make_integer(type);
    case TypeKind::floating: return make_float(type, type.size);
    case TypeKind::complex: return make_complex(type);
    case TypeKind::string:
    case TypeKind::raw: return make_bytes(type);
    case TypeKind::structured: return make_structured(type);
    default: return make_tagged(type);
  }
}

bool has_unnamed_members(const DataType& type) {
  return std::ranges::any_of(
      type.members, [](const TypeMember& member) { return member.name.empty() || has_unnamed_members(member.type); });
}

}  // namespace

Handle make_boolean() {
  Handle made(H5Tenum_create(H5T_STD_I8LE));
  const signed char values[] = {0, 1};
  H5Tenum_insert(made.get(), "FALSE", &values[0]);
  H5Tenum_insert(made.get(), "TRUE", &values[1]);
  return made;
}

Handle make_text() {
  Handle made(H5Tcopy(H5T_C_S1));
  H5Tset_size(made.get(), H5T_VARIABLE);
  H5Tset_cset(made.get(), H5T_CSET_UTF8);
  return made;
}

Result<Handle> make_type(const DataType& type, const Json& object_codec, std::string_view zarr3_name) {
  if (type.kind == TypeKind::object) {
    if (object_codec.is_object() && object_codec.contains("id") && object_codec["id"] == "vlen-utf8")
      return make_text();
    return no_type(type, "the only supported object type is variable-length text (object codec vlen-utf8)");
  }
  if (const SmallFloat* format = small_float_named(zarr3_name); format != nullptr && format->is_like_ieee())
    return small_float(format->bytes, format->exponent, format->mantissa, static_cast<size_t>(format->bias));
  CODECFS_ASSIGN(Handle made, make_any(type));
  if (!made) return fail_library(EOPNOTSUPP, "dtype {}", print_json(print_dtype(type)));
  CODECFS_ASSIGN(const MappedType mapped, map_type(made.get()));
  if (H5Tget_size(made.get()) != type.size || (mapped.type != type && !has_unnamed_members(type)))
    return no_type(type, fmt::format("it would be read as {}", print_json(print_dtype(mapped.type))));
  return made;
}

}  // namespace codecfs::hdf5
