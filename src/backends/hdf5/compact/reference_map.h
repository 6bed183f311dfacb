#pragma once
// Maps objects of a file to their copies in another file, and translates references. All functions under a LibraryLock.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/hdf5/compact/value_layout.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class ReferenceMap {
 public:
  /// Both files must stay open as long as the map exists.
  ReferenceMap(hid_t from, hid_t to) : from_(from), to_(to) {}

  void add(uint64_t from_address, uint64_t to_address) { addresses_[from_address] = to_address; }
  [[nodiscard]] std::optional<uint64_t> find(uint64_t from_address) const;

  /// Translates all references in `values`, which libhdf5 read from the one file, to the other. Null references stay.
  /// EOPNOTSUPP: the target of a reference was not copied, because it has been removed.
  Result<> translate(const ValueLayout& layout, MutableBytes values) const;

  /// The addresses of the objects to which `values`, of the one file, refer. EOPNOTSUPP as of translate().
  Result<std::vector<uint64_t>> targets(const ValueLayout& layout, MutableBytes values) const;

 private:
  Result<> translate_object(std::byte* value) const;
  Result<> translate_region(std::byte* value) const;

  hid_t from_;
  hid_t to_;
  std::unordered_map<uint64_t, uint64_t> addresses_;
};

}  // namespace codecfs::hdf5
