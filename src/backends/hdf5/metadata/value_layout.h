#pragma once
// What in the values of a type means something only in its file: references, which are addresses, and data of variable
// length, which lies in heaps. All functions under a LibraryLock.

#include <hdf5.h>

#include <cstddef>
#include <vector>

#include "base/result.h"

namespace codecfs::hdf5 {

struct ValueLayout {
  enum class Kind { plain, object_reference, region_reference, text, sequence, array, compound };
  struct Part {
    size_t offset = 0;                // bytes from the start of the value
    std::vector<ValueLayout> layout;  // one
  };

  Kind kind = Kind::plain;
  size_t size = 0;          // bytes of a value in memory
  bool references = false;  // at any depth
  bool heap = false;        // data of variable length at any depth
  std::vector<Part> parts;  // of a compound its members; of an array or sequence the element

  /// Of a type as libhdf5 has it in memory. EIO; EOPNOTSUPP: nested too deeply, or references of a kind that we do not
  /// know.
  static Result<ValueLayout> of(hid_t type);
};

}  // namespace codecfs::hdf5
