#pragma once
// Whether values of two HDF5 files, as the library reads them, are the same: references count as the same where they
// lead to an object and its copy. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>
#include <span>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/reference_map.h"
#include "backends/hdf5/metadata/value_layout.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// The values of two attributes of the same type and shape. EIO: they differ, or cannot be read.
Result<> compare_attribute_values(hid_t from, hid_t to, const ReferenceMap& references);

/// Elements of two datasets of the same type and shape, in pieces of bounded size.
class ElementComparison {
 public:
  /// Both datasets stay open as long as this.
  static Result<ElementComparison> make(hid_t from, hid_t to, const ReferenceMap& references);

  /// All elements. EIO: they differ, or cannot be read.
  [[nodiscard]] Result<> compare_all() const;
  /// Those of a box: both in elements, as many as the dataset has dimensions.
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
