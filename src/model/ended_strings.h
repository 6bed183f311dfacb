#pragma once
// Strings of fixed length that end at their first zero byte (H5T_STR_NULLTERM of HDF5), as strings of C do. Libraries
// return nothing of what is behind it, where writers leave what was in their memory; so no view shows that either.

#include <cstdint>
#include <span>

#include "base/buffer.h"

namespace codecfs {

/// Such a string in an element of a variable: the bytes from `offset` on.
struct EndedString {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const EndedString&) const = default;
};

/// Whether there is anything behind the end of a string. `elements`: whole elements of `element` bytes, which contain
/// the strings.
bool has_bytes_behind_ends(std::span<const EndedString> strings, uint64_t element, Bytes elements);
/// Sets everything behind the ends of strings to zero.
void clear_behind_ends(std::span<const EndedString> strings, uint64_t element, MutableBytes elements);

}  // namespace codecfs
