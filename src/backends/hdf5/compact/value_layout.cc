// Decomposes types into plain bytes, references and variable-length data.

#include "backends/hdf5/compact/value_layout.h"

#include <utility>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

constexpr int kDeepest = 64;  // nesting of types

using Kind = ValueLayout::Kind;

Result<ValueLayout> layout_of(hid_t type, int depth);

void add_part(ValueLayout& whole, size_t offset, ValueLayout part) {
  whole.references |= part.references;
  whole.heap |= part.heap;
  ValueLayout::Part added{.offset = offset, .layout = {}};
  added.layout.push_back(std::move(part));
  whole.parts.push_back(std::move(added));
}

Result<> add_element(ValueLayout& whole, hid_t type, int depth) {
  const Handle element(H5Tget_super(type));
  if (!element) return fail_library(EIO, "the type of an element");
  CODECFS_ASSIGN(ValueLayout layout, layout_of(element.get(), depth + 1));
  if (layout.size == 0) return fail(EIO, "a type has elements of no bytes");
  add_part(whole, 0, std::move(layout));
  return {};
}

Result<> add_members(ValueLayout& whole, hid_t type, int depth) {
  const int count = H5Tget_nmembers(type);
  if (count < 0) return fail_library(EIO, "the members of a type");
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    const Handle member(H5Tget_member_type(type, i));
    if (!member) return fail_library(EIO, "member {} of a type", i);
    CODECFS_ASSIGN(ValueLayout layout, layout_of(member.get(), depth + 1));
    const size_t offset = H5Tget_member_offset(type, i);
    if (offset > whole.size || layout.size > whole.size - offset) return fail(EIO, "member {} is outside its type", i);
    add_part(whole, offset, std::move(layout));
  }
  return {};
}

Result<Kind> kind_of_reference(hid_t type) {
  if (H5Tequal(type, H5T_STD_REF_OBJ) > 0) return Kind::object_reference;
  if (H5Tequal(type, H5T_STD_REF_DSETREG) > 0) return Kind::region_reference;
  return fail(EOPNOTSUPP, "a kind of reference that codecfs does not know");
}

Result<ValueLayout> layout_of(hid_t type, int depth) {
  if (depth > kDeepest) return fail(EOPNOTSUPP, "a type is nested more than {} times", kDeepest);
  ValueLayout layout;
  layout.size = H5Tget_size(type);
  if (layout.size == 0) return fail_library(EIO, "the size of a type");
  switch (H5Tget_class(type)) {
    case H5T_REFERENCE: {
      CODECFS_ASSIGN(layout.kind, kind_of_reference(type));
      layout.references = true;
      break;
    }
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) {
        layout.kind = Kind::text;
        layout.heap = true;
      }
      break;
    case H5T_VLEN:
      CODECFS_TRY(add_element(layout, type, depth));
      layout.kind = Kind::sequence;
      layout.heap = true;
      break;
    case H5T_ARRAY:
      CODECFS_TRY(add_element(layout, type, depth));
      layout.kind = Kind::array;
      break;
    case H5T_COMPOUND:
      CODECFS_TRY(add_members(layout, type, depth));
      layout.kind = Kind::compound;
      break;
    case H5T_NO_CLASS: return fail_library(EIO, "the class of a type");
    default: break;
  }
  const bool has_elements = layout.kind == Kind::array || layout.kind == Kind::compound;
  if (has_elements && !layout.references && !layout.heap) {
    layout.kind = Kind::plain;
    layout.parts.clear();
  }
  return layout;
}

}  // namespace

Result<ValueLayout> ValueLayout::of(hid_t type) { return layout_of(type, 0); }

}  // namespace codecfs::hdf5
