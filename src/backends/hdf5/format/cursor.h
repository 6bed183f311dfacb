#pragma once
// Reads the numbers of HDF5's structures, which are little-endian, from bytes that may be too short.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/buffer.h"

namespace codecfs::hdf5 {

/// Reads numbers one after the other; beyond the end they are 0, and `failed` is set.
struct Cursor {
  Bytes bytes;
  size_t at = 0;
  bool failed = false;

  uint64_t number(size_t size) {
    if (at > bytes.size() || size > bytes.size() - at || size > 8) {
      failed = true;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
    at += size;
    return value;
  }
  uint64_t address() { return number(8); }
  void skip(uint64_t size) {
    if (size > bytes.size() - std::min(at, bytes.size())) failed = true;
    at = failed ? bytes.size() : at + static_cast<size_t>(size);
  }
  /// The next bytes; empty if there are fewer.
  Bytes take(uint64_t size) {
    const size_t begin = at;
    skip(size);
    return failed ? Bytes() : bytes.subspan(begin, static_cast<size_t>(size));
  }
  [[nodiscard]] Bytes remaining() const { return bytes.subspan(std::min(at, bytes.size())); }
};

/// Whether the bytes begin with a signature of four letters.
inline bool is_marked(Bytes bytes, std::string_view signature) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), signature.data(), 4) == 0;
}

}  // namespace codecfs::hdf5
