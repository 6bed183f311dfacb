#pragma once
// Fill values with references. A dataset gets its fill value when it is created, so the objects to which that refers
// must have been copied before. All functions under a LibraryRead.

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/compact/value_layout.h"
#include "backends/hdf5/compact/value_pieces.h"
#include "backends/hdf5/library/handle.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A fill value of a type with references.
class FillWithReferences {
 public:
  /// The fill value in creation properties of a dataset of this type; null if there is none, its type has no
  /// references, or all of it is zeros. EIO; EOPNOTSUPP as of ValueLayout::of().
  static Result<std::unique_ptr<FillWithReferences>> read(hid_t properties, hid_t type);

  [[nodiscard]] hid_t type() const { return type_.get(); }
  [[nodiscard]] const ValueLayout& layout() const { return layout_; }
  [[nodiscard]] MutableBytes bytes() { return value_->bytes(); }

 private:
  FillWithReferences() = default;

  Handle type_;
  Handle space_;
  ValueLayout layout_;
  std::optional<Values> value_;  // destroyed first
};

/// The addresses of the objects to which the fill value of a dataset refers. EIO, EOPNOTSUPP.
Result<std::vector<uint64_t>> fill_targets(hid_t dataset, const ReferenceMap& references);
/// Translates the references in the fill value of creation properties. EIO, EOPNOTSUPP.
Result<> translate_fill(hid_t properties, hid_t type, const ReferenceMap& references);

}  // namespace codecfs::hdf5
