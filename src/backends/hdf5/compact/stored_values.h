#pragma once
// Copies values of attributes and datasets between HDF5 files through libhdf5: variable-length data is written to new
// heaps, references are translated. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>
#include <span>

#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/compact/value_layout.h"
#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Copies the value of an attribute to another of the same type and shape. EIO, EOPNOTSUPP (ReferenceMap::translate()).
Result<> copy_attribute_value(hid_t from, hid_t to, const ReferenceMap& references);

/// Copies elements between datasets of the same type and shape, in pieces of bounded size.
class ElementCopy {
 public:
  /// Both datasets must stay open as long as this exists.
  static Result<ElementCopy> make(hid_t from, hid_t to, const ReferenceMap& references);

  /// Copies all elements. Errors as above.
  Result<> copy_all() const;
  /// Copies the elements of a box: both in elements, one item per dimension.
  Result<> copy_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const;

 private:
  ElementCopy(hid_t from, hid_t to, const ReferenceMap& references) : from_(from), to_(to), references_(&references) {}
  Result<> copy_piece(hid_t memory_space, hid_t file_space, uint64_t elements) const;

  hid_t from_;
  hid_t to_;
  const ReferenceMap* references_;
  Handle type_;
  Handle space_;
  ValueLayout layout_;
};

}  // namespace codecfs::hdf5
