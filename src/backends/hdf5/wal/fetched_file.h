#pragma once
// A source that is not a local file: its bytes arrive when they are read. Only to read.

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class FetchedFile {
 public:
  virtual ~FetchedFile() = default;
  /// A file of the same size, with the time of the source. The beginning of it is there; beyond, what was not read yet
  /// is zeros.
  [[nodiscard]] virtual int fd() const = 0;
  /// Exactly these bytes of the file, all within its size. Thread-safe. Any error of the network.
  virtual Result<> read(uint64_t offset, MutableBytes to) = 0;
};

/// Records why a FetchedFile could not be read by this thread: libhdf5 does not pass the reason on.
void note_fetch_failure(const Error& error);
[[nodiscard]] bool has_fetch_failure();
/// The first failure that was recorded since the last call.
std::optional<Error> take_fetch_failure();

}  // namespace codecfs::hdf5
