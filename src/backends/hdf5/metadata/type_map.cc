// HDF5 datatypes as Zarr v2 dtypes. A type without a numpy name becomes raw bytes (|Vn), and user._Type has its HDF5
// type.

#include "backends/hdf5/metadata/type_map.h"

#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <set>

#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/library_lock.h"
#include "model/json.h"
#include "model/limits.h"
#include "model/small_float.h"

namespace codecfs::hdf5 {
namespace {

ByteOrder order_of(hid_t type, uint64_t size) {
  if (size == 1) return ByteOrder::none;
  return H5Tget_order(type) == H5T_ORDER_BE ? ByteOrder::big : ByteOrder::little;
}

bool plain_order(hid_t type) {
  const H5T_order_t order = H5Tget_order(type);
  return order == H5T_ORDER_LE || order == H5T_ORDER_BE;
}

bool machine_size(uint64_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

// Whether the type is a float of this layout as IEEE 754 has it: sign, exponent, mantissa without its leading one, no
// bits between or beside them.
bool has_layout(hid_t type, size_t bytes, size_t exponent, size_t mantissa, size_t bias) {
  size_t sign = 0;
  size_t exponent_place = 0;
  size_t exponent_bits = 0;
  size_t mantissa_place = 0;
  size_t mantissa_bits = 0;
  return H5Tget_size(type) == bytes && H5Tget_precision(type) == 8 * bytes && H5Tget_offset(type) == 0 &&
         H5Tget_fields(type, &sign, &exponent_place, &exponent_bits, &mantissa_place, &mantissa_bits) >= 0 &&
         sign == 8 * bytes - 1 && exponent_place == mantissa && exponent_bits == exponent && mantissa_place == 0 &&
         mantissa_bits == mantissa && H5Tget_ebias(type) == bias && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

bool is_ieee_float(hid_t type) {
  return plain_order(type) &&
         (has_layout(type, 2, 5, 10, 15) || has_layout(type, 4, 8, 23, 127) || has_layout(type, 8, 11, 52, 1023));
}

// The name that Zarr v3 has for a float that numpy lacks; empty if it has none. libhdf5 takes the largest exponent for
// infinities and NaN in all floats, so a type of HDF5 is never one of the formats that have numbers there. Elements
// with such a name are little-endian.
std::string zarr3_name(hid_t type) {
  if (H5Tget_size(type) > 1 && H5Tget_order(type) != H5T_ORDER_LE) return {};
  const auto found = std::ranges::find_if(small_floats(), [&](const SmallFloat& format) {
    return format.is_like_ieee() &&
           has_layout(type, format.bytes, format.exponent, format.mantissa, static_cast<size_t>(format.bias));
  });
  return found == small_floats().end() ? std::string() : std::string(found->name);
}

constexpr std::string_view kTag = "NUMPY:";

// The type that h5py's tag of an opaque type names. None if the type is not one that tag_of() names, or of another
// size.
std::optional<DataType> type_of_tag(std::string_view tag, uint64_t size) {
  if (!tag.starts_with(kTag)) return std::nullopt;
  Result<DataType> named = parse_dtype(Json(tag.substr(kTag.size())));
  if (!named || named->size != size || tag_of(*named) != tag) return std::nullopt;
  return *std::move(named);
}

std::string member_name(hid_t compound, unsigned index) {
  char* raw = H5Tget_member_name(compound, index);
  std::string name = raw != nullptr ? raw : "";
  H5free_memory(raw);
  return name;
}

constexpr size_t kMaxEnded = 65536;  // strings in an element; what is behind the ends of others is shown

class Mapper {
 public:
  Result<MappedType> map(hid_t type, int depth) {
    const uint64_t size = H5Tget_size(type);
    if (size == 0) return fail_library(EIO, "the size of a datatype");
    if (depth > kMaxTypeNesting) return fail(EIO, "a datatype is nested more than {} deep", kMaxTypeNesting);
    MappedType mapped;
    mapped.memory = Handle(H5Tcopy(type));
    mapped.type = {TypeKind::raw, ByteOrder::none, size, {}, {}};
    switch (H5Tget_class(type)) {
      case H5T_INTEGER:
        integer(type, mapped, H5Tget_sign(type) == H5T_SGN_NONE ? TypeKind::unsigned_int : TypeKind::signed_int);
        break;
      case H5T_BITFIELD:
        integer(type, mapped, TypeKind::unsigned_int);
        mapped.tell = true;
        break;
      case H5T_FLOAT:
        if (is_ieee_float(type)) {
          mapped.type.kind = TypeKind::floating;
          mapped.type.order = order_of(type, size);
        } else {
          mapped.tell = true;
          mapped.zarr3_name = zarr3_name(type);
        }
        break;
      case H5T_STRING: string(type, mapped); break;
      case H5T_OPAQUE: opaque(type, mapped); break;
      case H5T_ENUM: CODECFS_TRY(enumeration(type, mapped, depth)); break;
      case H5T_ARRAY: return array(type, depth);
      case H5T_COMPOUND: return compound(type, depth, std::move(mapped));
      case H5T_REFERENCE: no_form(mapped, "references point into the HDF5 file and have no Zarr form"); break;
      case H5T_VLEN: no_form(mapped, "sequences of variable length have no Zarr v2 form that is read here"); break;
      default: complex(type, mapped); break;
    }
    if (!mapped.memory) return fail_library(EIO, "a datatype");
    return mapped;
  }

 private:
  static void no_form(MappedType& mapped, const char* why) {
    mapped.tell = true;
    mapped.unreadable = Error{EOPNOTSUPP, why};
  }

  // libhdf5's conversion to the full width handles integers with padding bits.
  static void integer(hid_t type, MappedType& mapped, TypeKind kind) {
    const uint64_t size = mapped.type.size;
    if (!machine_size(size) || !plain_order(type)) {
      mapped.tell = true;
      return;
    }
    mapped.type.kind = kind;
    mapped.type.order = order_of(type, size);
    if (H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0) return;
    mapped.tell = true;
    mapped.converts = true;
    H5Tset_offset(mapped.memory.get(), 0);
    H5Tset_precision(mapped.memory.get(), 8 * size);
  }

  // Of HDF5 2.0; a type of any other class is raw bytes. h5py's form is a compound.
  static void complex(hid_t type, MappedType& mapped) {
    mapped.tell = true;
    const Handle part = complex_part(type);
    if (!part || !is_ieee_float(part.get()) || H5Tget_size(part.get()) < 4) return;
    mapped.type.kind = TypeKind::complex;
    mapped.type.order = order_of(part.get(), mapped.type.size / 2);
    mapped.tell = false;
  }

  static void string(hid_t type, MappedType& mapped) {
    if (H5Tis_variable_str(type) > 0) {
      mapped.type = {TypeKind::object, ByteOrder::none, 0, {}, {}};
      mapped.text = true;
      return;
    }
    mapped.type.kind = TypeKind::string;
    mapped.tell = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    if (H5Tget_strpad(type) == H5T_STR_NULLTERM && mapped.type.size > 1) mapped.ended = {{0, mapped.type.size}};
  }

  static void opaque(hid_t type, MappedType& mapped) {
    char* raw = H5Tget_tag(type);
    const std::string tag = raw != nullptr ? raw : "";
    H5free_memory(raw);
    if (std::optional<DataType> named = type_of_tag(tag, mapped.type.size))
      mapped.type = *std::move(named);
    else
      mapped.tell = !tag.empty();
  }

  Result<> enumeration(hid_t type, MappedType& mapped, int depth) {
    if (is_boolean(type)) {
      mapped.type.kind = TypeKind::boolean;
      return {};
    }
    const Handle base(H5Tget_super(type));
    CODECFS_ASSIGN(const MappedType integer, map(base.get(), depth + 1));
    mapped.type = integer.type;
    mapped.tell = true;
    return {};
  }

  Result<MappedType> array(hid_t type, int depth) {
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Tget_array_ndims(type);
    if (rank < 1 || rank > H5S_MAX_RANK || H5Tget_array_dims2(type, dims.data()) < 0)
      return fail_library(EIO, "the dimensions of an array type");
    const Handle base(H5Tget_super(type));
    CODECFS_ASSIGN(MappedType mapped, map(base.get(), depth + 1));
    if (mapped.unreadable) {  // an element stays one raw value
      mapped.type.size = H5Tget_size(type);
      mapped.memory = Handle(H5Tcopy(type));
      return mapped;
    }
    mapped.memory = Handle(H5Tarray_create2(mapped.memory.get(), static_cast<unsigned>(rank), dims.data()));
    if (!mapped.memory) return fail_library(EIO, "an array type");
    mapped.shape.insert(mapped.shape.begin(), dims.begin(), dims.begin() + rank);
    return mapped;
  }

  Result<MappedType> compound(hid_t type, int depth, MappedType mapped) {
    const int count = H5Tget_nmembers(type);
    if (count < 1) return fail_library(EIO, "the members of a compound type");
    struct Member {
      uint64_t offset;
      TypeMember shown;
      MappedType mapped;
    };
    std::vector<Member> members;
    std::set<std::string> names;
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      const Handle member_type(H5Tget_member_type(type, i));
      CODECFS_ASSIGN(MappedType member, map(member_type.get(), depth + 1));
      Member entry{H5Tget_member_offset(type, i), {member_name(type, i), member.type, member.shape}, std::move(member)};
      if (entry.mapped.text) no_form(entry.mapped, "strings of variable length");
      if (entry.mapped.unreadable) {
        no_form(mapped, "");
        mapped.unreadable->reason =
            fmt::format("member \"{}\" has no Zarr form: {}", entry.shown.name, entry.mapped.unreadable->reason);
        return mapped;
      }
      mapped.tell |= entry.mapped.tell;
      mapped.converts |= entry.mapped.converts;
      names.insert(entry.shown.name);
      members.push_back(std::move(entry));
    }
    std::ranges::sort(members, {}, &Member::offset);

    if (is_complex(type)) {
      mapped.type.kind = TypeKind::complex;
      mapped.type.order = members[0].shown.type.order;
      return mapped;
    }
    mapped.type.kind = TypeKind::structured;
    unsigned pads = 0;
    uint64_t end = 0;
    const auto pad_until = [&](uint64_t offset) {
      if (offset <= end) return;
      std::string name;
      do name = fmt::format("__pad{}", pads++);
      while (names.contains(name));
      mapped.type.members.push_back({name, {TypeKind::raw, ByteOrder::none, offset - end, {}, {}}, {}});
    };
    for (Member& member : members) {
      if (member.offset < end || member.offset > mapped.type.size ||
          member.shown.size() > mapped.type.size - member.offset)
        return fail(EIO, "the members of a compound type overlap");
      pad_until(member.offset);
      end = member.offset + member.shown.size();
      mapped.type.members.push_back(member.shown);
      for (uint64_t i = 0; i < member.mapped.count() && !member.mapped.ended.empty(); ++i)
        for (const EndedString& string : member.mapped.ended)
          if (mapped.ended.size() < kMaxEnded)
            mapped.ended.push_back({member.offset + i * member.mapped.type.size + string.offset, string.size});
    }
    pad_until(mapped.type.size);

    if (mapped.converts) {  // the same layout with the full-width types of the members
      mapped.memory = Handle(H5Tcreate(H5T_COMPOUND, mapped.type.size));
      for (const Member& member : members)
        if (H5Tinsert(mapped.memory.get(), member.shown.name.c_str(), member.offset, member.mapped.memory.get()) < 0)
          return fail_library(EIO, "a compound type");
    }
    return mapped;
  }
};

}  // namespace

uint64_t MappedType::count() const {
  uint64_t product = 1;
  for (const uint64_t length : shape) product *= length;  // cannot overflow, as the size of an HDF5 type is bounded
  return product;
}

Result<MappedType> map_type(hid_t file_type) { return Mapper().map(file_type, 0); }

std::optional<std::string> tag_of(const DataType& type) {
  const bool is_tagged =
      type.kind == TypeKind::unicode || type.kind == TypeKind::datetime || type.kind == TypeKind::timedelta;
  if (!is_tagged) return std::nullopt;
  return fmt::format("{}{}", kTag, print_dtype(type).get<std::string>());
}

std::string type_text(hid_t type) {
  size_t size = 0;
  if (H5LTdtype_to_text(type, nullptr, H5LT_DDL, &size) < 0 || size == 0) return {};
  std::string text(size, '\0');
  if (H5LTdtype_to_text(type, text.data(), H5LT_DDL, &size) < 0) return {};
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

bool is_boolean(hid_t enumeration) {
  if (H5Tget_size(enumeration) != 1 || H5Tget_nmembers(enumeration) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    signed char value = -1;
    if (H5Tget_member_value(enumeration, i, &value) < 0) return false;
    if (member_name(enumeration, i) != (value == 0 ? "FALSE" : "TRUE") || (value != 0 && value != 1)) return false;
  }
  return true;
}

bool is_complex(hid_t compound) {
  if (H5Tget_nmembers(compound) != 2 || member_name(compound, 0) != "r" || member_name(compound, 1) != "i")
    return false;
  const Handle real(H5Tget_member_type(compound, 0));
  const Handle imaginary(H5Tget_member_type(compound, 1));
  const size_t size = H5Tget_size(real.get());
  return H5Tget_class(real.get()) == H5T_FLOAT && is_ieee_float(real.get()) && size >= 4 &&
         H5Tequal(real.get(), imaginary.get()) > 0 && H5Tget_size(compound) == 2 * size &&
         H5Tget_member_offset(compound, 0) == 0 && H5Tget_member_offset(compound, 1) == size;
}

}  // namespace codecfs::hdf5
