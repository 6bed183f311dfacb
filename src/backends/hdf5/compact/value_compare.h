#pragma once
// Compares values of two HDF5 files as libhdf5 reads them: references are equal if they refer to an object and its
// copy. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>
#include <span>

#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/compact/value_layout.h"
#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Compares two attributes of the same type and shape. EIO: they differ, or cannot be read.
Result<> compare_attribute_values(hid_t from, hid_t to, const ReferenceMap& references);

/// Compares the references in the fill values of two datasets of the same type, by their creation properties. EIO.
Result<> compare_fill_references(hid_t type, hid_t from_properties, hid_t to_properties, hid_t from, hid_t to,
                                 const ReferenceMap& references);

/// Compares elements of two datasets of the same type and shape, in pieces of bounded size.
class ElementComparison {
 public:
  /// Both datasets must stay open as long as this exists.
  static Result<ElementComparison> make(hid_t from, hid_t to, const ReferenceMap& references);

  /// Compares all elements. EIO: they differ, or cannot be read.
  [[nodiscard]] Result<> compare_all() const;
  /// Compares the elements of a box: both in elements, one item per dimension.
  [[nodiscard]] Result<> compare_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const;

 private:
  ElementComparison(hid_t from, hid_t to, const ReferenceMap& references)
      : from_(from), to_(to), references_(&references) {}
  [[nodiscard]] Result<> compare_piece(hid_t memory_space, hid_t file_space, uint64_t elements) const;

  hid_t from_;
  hid_t to_;
  const ReferenceMap* references_;
  Handle type_;
  Handle space_;
  ValueLayout layout_;
};

}  // namespace codecfs::hdf5
