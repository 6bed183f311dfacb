#pragma once
// Sorts the places of stored chunks in a file by their offsets, however many there are: what does not fit into memory
// is sorted in parts, which are kept in an unlinked file in the directory for temporary files and merged at the end.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::commands {

struct StoredPlace {
  uint64_t offset = 0;    // bytes from the start of the file
  uint64_t size = 0;      // bytes
  uint64_t variable = 0;  // for the caller
  uint64_t chunk = 0;     // its number
};

/// Not thread-safe.
class StoredPlaces {
 public:
  static constexpr size_t kMaxInMemory = size_t{1} << 20;  // 32 MiB

  explicit StoredPlaces(size_t max_in_memory = kMaxInMemory) : max_in_memory_(max_in_memory) {}

  /// ENOSPC and other errors of the temporary file; then this place is not added, and later calls fail too.
  Result<> add(const StoredPlace& place);
  /// Calls visit() for each place, in the order of the offsets, then of the sizes. To be called once. EIO.
  Result<> visit_sorted(const std::function<void(const StoredPlace&)>& visit);

 private:
  struct Part {
    uint64_t next = 0;  // bytes from the start of the file
    uint64_t end = 0;
    size_t at = 0;
    std::vector<StoredPlace> read;
  };
  Result<> write_part();
  Result<bool> read_more(Part& part, size_t most) const;

  const size_t max_in_memory_;
  std::vector<StoredPlace> held_;
  UniqueFd file_;
  std::vector<Part> parts_;
};

}  // namespace codecfs::commands
