#pragma once
// Reads small parts of a file, in pages that it keeps: the structures of an HDF5 file are often near to each other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// Not thread-safe.
class FileWindow {
 public:
  /// Reads up to to.size() bytes, fewer only at the end of the file, and returns how many.
  using Read = std::function<Result<size_t>(uint64_t offset, MutableBytes to)>;
  FileWindow(Read read, uint64_t file_bytes) : read_(std::move(read)), file_bytes_(file_bytes) {}

  [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }
  /// Fills all of `to`. EIO: a part of it is beyond the end of the file. Errors of Read.
  Result<> read(uint64_t offset, MutableBytes to);

 private:
  static constexpr size_t kPage = size_t{16} << 10;  // bytes
  struct Page {
    uint64_t number = UINT64_MAX;
    std::vector<std::byte> bytes;
  };
  Result<const Page*> page(uint64_t number);

  const Read read_;
  const uint64_t file_bytes_;
  std::array<Page, 64> pages_;  // each at its number modulo their count
};

}  // namespace codecfs::hdf5
