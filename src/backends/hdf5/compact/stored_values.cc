#include "backends/hdf5/compact/stored_values.h"

#include <utility>

#include "backends/hdf5/compact/value_pieces.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {

Result<> copy_attribute_value(hid_t from, hid_t to, const ReferenceMap& references) {
  const Handle stored(H5Aget_type(from));
  const Handle type(H5Tcopy(stored.get()));
  const Handle space(H5Aget_space(from));
  if (!type || !space) return fail_library(EIO, "its type");
  const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
  if (elements < 0) return fail_library(EIO, "its shape");
  if (elements == 0) return {};
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  if (static_cast<uint64_t>(elements) > kMaxAttributeBytes / layout.size)
    return fail(EIO, "an attribute of {} elements of {} bytes", elements, layout.size);
  Values values(type.get(), space.get(), layout, static_cast<uint64_t>(elements));
  if (H5Aread(from, type.get(), values.data()) < 0) return fail_library(EIO, "it cannot be read");
  values.were_read();
  CODECFS_TRY(references.translate(layout, values.bytes()));
  if (H5Awrite(to, type.get(), values.data()) < 0) return fail_library(EIO, "it cannot be written");
  return {};
}

Result<ElementCopy> ElementCopy::make(hid_t from, hid_t to, const ReferenceMap& references) {
  ElementCopy copy(from, to, references);
  const Handle stored(H5Dget_type(from));
  copy.type_ = Handle(H5Tcopy(stored.get()));
  copy.space_ = Handle(H5Dget_space(from));
  if (!copy.type_ || !copy.space_) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(copy.layout_, ValueLayout::of(copy.type_.get()));
  return copy;
}

Result<> ElementCopy::copy_all() const {
  return in_pieces(space_.get(), layout_.size,
                   [this](hid_t memory, uint64_t elements) { return copy_piece(memory, space_.get(), elements); });
}

Result<> ElementCopy::copy_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const {
  return in_pieces_of(space_.get(), layout_.size, start, count,
                      [this](hid_t memory, uint64_t elements) { return copy_piece(memory, space_.get(), elements); });
}

Result<> ElementCopy::copy_piece(hid_t memory_space, hid_t file_space, uint64_t elements) const {
  Values values(type_.get(), memory_space, layout_, elements);
  if (H5Dread(from_, type_.get(), memory_space, file_space, H5P_DEFAULT, values.data()) < 0)
    return fail_library(EIO, "it cannot be read");
  values.were_read();
  CODECFS_TRY(references_->translate(layout_, values.bytes()));
  if (H5Dwrite(to_, type_.get(), memory_space, file_space, H5P_DEFAULT, values.data()) < 0)
    return fail_library(EIO, "it cannot be written");
  return {};
}

}  // namespace codecfs::hdf5
