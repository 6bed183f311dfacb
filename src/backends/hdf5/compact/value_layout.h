#pragma once
// Finds the parts of a type's values that are valid only within their file: references, which are addresses, and
// variable-length data, which is stored in heaps. All functions under a LibraryLock.

#include <hdf5.h>

#include <cstddef>
#include <vector>

#include "base/result.h"

namespace codecfs::hdf5 {

struct ValueLayout {
  enum class Kind { plain, object_reference, region_reference, text, sequence, array, compound };
  struct Part {
    size_t offset = 0;                // bytes from the start of the value
    std::vector<ValueLayout> layout;  // exactly one
  };

  Kind kind = Kind::plain;
  size_t size = 0;          // bytes of a value in memory
  bool references = false;  // at any depth
  bool heap = false;        // variable-length data at any depth
  std::vector<Part> parts;  // the members of a compound; the element of an array or sequence

  /// For a type in libhdf5's memory form. EIO; EOPNOTSUPP: nested too deeply, or an unsupported kind of reference.
  static Result<ValueLayout> of(hid_t type);
};

}  // namespace codecfs::hdf5
