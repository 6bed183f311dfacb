#pragma once
// Reads values through libhdf5 in pieces of bounded size. Under a LibraryRead.

#include <hdf5.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/hdf5/compact/value_layout.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "base/buffer.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {

inline constexpr uint64_t kMaxAttributeBytes = uint64_t{1} << 32;
inline constexpr uint64_t kPieceOfValues = uint64_t{16} << 20;  // maximum bytes, unless one element is larger

/// Memory for values that libhdf5 reads; also frees the variable-length data that libhdf5 allocates.
class Values {
 public:
  Values(hid_t type, hid_t space, const ValueLayout& layout, uint64_t elements)
      : type_(type), space_(space), heap_(layout.heap), bytes_(elements * layout.size) {}
  ~Values() {
    if (heap_ && read_) reclaim(type_, space_, bytes_.data());
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] MutableBytes bytes() { return bytes_; }
  void were_read() { read_ = true; }

 private:
  hid_t type_;
  hid_t space_;
  bool heap_;
  bool read_ = false;
  std::vector<std::byte> bytes_;
};

inline std::vector<uint64_t> cut_into_pieces(std::span<const hsize_t> shape, uint64_t room) {
  std::vector<uint64_t> piece(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 0;) {
    piece[d] = std::clamp<uint64_t>(shape[d], 1, room);
    if (piece[d] < shape[d]) break;
    room /= piece[d];
  }
  return piece;
}

/// Divides a box of elements into pieces of bounded size. Selects each in `space`, and calls `use(memory_space,
/// elements)`.
template <class Function>
Result<> in_pieces_of(hid_t space, size_t element_bytes, std::span<const hsize_t> start, std::span<const hsize_t> count,
                      const Function& use, uint64_t piece_bytes = kPieceOfValues) {
  const std::vector<uint64_t> piece = cut_into_pieces(count, std::max<uint64_t>(piece_bytes / element_bytes, 1));
  CODECFS_ASSIGN(const ChunkGrid grid, ChunkGrid::make({count.begin(), count.end()}, piece));
  std::vector<uint64_t> coordinates(count.size());
  std::vector<hsize_t> at(count.size());
  std::vector<hsize_t> extent(count.size());
  for (uint64_t number = 0; number < grid.count(); ++number) {
    grid.coordinates_of(number, coordinates);
    uint64_t elements = 1;
    for (size_t d = 0; d < count.size(); ++d) {
      const uint64_t begin = coordinates[d] * piece[d];
      at[d] = start[d] + begin;
      extent[d] = std::min<uint64_t>(piece[d], count[d] - begin);
      elements *= extent[d];
    }
    const Handle memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
    if (!memory || H5Sselect_hyperslab(space, H5S_SELECT_SET, at.data(), nullptr, extent.data(), nullptr) < 0)
      return fail_library(EIO, "a part of it cannot be selected");
    CODECFS_TRY(use(memory.get(), elements));
  }
  return {};
}

/// As in_pieces_of(), for a dataset's whole dataspace.
template <class Function>
Result<> in_pieces(hid_t space, size_t element_bytes, const Function& use) {
  const hssize_t elements = H5Sget_simple_extent_npoints(space);
  if (elements < 0) return fail_library(EIO, "its shape");
  if (elements == 0) return {};
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1) return use(space, 1);
  std::vector<hsize_t> shape(static_cast<size_t>(rank));
  const std::vector<hsize_t> start(shape.size());
  if (H5Sget_simple_extent_dims(space, shape.data(), nullptr) < 0) return fail_library(EIO, "its shape");
  return in_pieces_of(space, element_bytes, start, shape, use);
}

}  // namespace codecfs::hdf5
