#include "backends/hdf5/stored_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"
#include "base/buffer.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMostAttributeBytes = uint64_t{1} << 32;

// Memory for values that libhdf5 reads, with what it allocates for those of variable length.
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

std::vector<uint64_t> cut_into_pieces(std::span<const hsize_t> shape, uint64_t room) {
  std::vector<uint64_t> piece(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 0;) {
    piece[d] = std::clamp<uint64_t>(shape[d], 1, room);
    if (piece[d] < shape[d]) break;
    room /= piece[d];
  }
  return piece;
}

}  // namespace

Result<> copy_attribute_value(hid_t from, hid_t to, const ReferenceMap& references) {
  const Handle stored(H5Aget_type(from));
  const Handle type(H5Tcopy(stored.get()));
  const Handle space(H5Aget_space(from));
  if (!type || !space) return fail_library(EIO, "its type");
  const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
  if (elements < 0) return fail_library(EIO, "its shape");
  if (elements == 0) return {};
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  if (static_cast<uint64_t>(elements) > kMostAttributeBytes / layout.size)
    return fail(EIO, "an attribute of {} elements of {} bytes", elements, layout.size);
  Values values(type.get(), space.get(), layout, static_cast<uint64_t>(elements));
  if (H5Aread(from, type.get(), values.data()) < 0) return fail_library(EIO, "it cannot be read");
  values.were_read();
  CODECFS_TRY(references.translate(layout, values.bytes()));
  if (H5Awrite(to, type.get(), values.data()) < 0) return fail_library(EIO, "it cannot be written");
  return {};
}

Result<ElementCopy> ElementCopy::make(hid_t from, hid_t to, const ReferenceMap& references) {
  ElementCopy copy(from, to, references);
  const Handle stored(H5Dget_type(from));
  copy.type_ = Handle(H5Tcopy(stored.get()));
  copy.space_ = Handle(H5Dget_space(from));
  if (!copy.type_ || !copy.space_) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(copy.layout_, ValueLayout::of(copy.type_.get()));
  return copy;
}

Result<> ElementCopy::copy_all() const {
  const hssize_t elements = H5Sget_simple_extent_npoints(space_.get());
  if (elements < 0) return fail_library(EIO, "its shape");
  if (elements == 0) return {};
  const int rank = H5Sget_simple_extent_ndims(space_.get());
  if (rank < 1) return copy_piece(space_.get(), space_.get(), 1);
  std::vector<hsize_t> shape(static_cast<size_t>(rank));
  const std::vector<hsize_t> start(shape.size());
  if (H5Sget_simple_extent_dims(space_.get(), shape.data(), nullptr) < 0) return fail_library(EIO, "its shape");
  return copy_box(start, shape);
}

Result<> ElementCopy::copy_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const {
  const std::vector<uint64_t> piece = cut_into_pieces(count, std::max<uint64_t>(kPieceBytes / layout_.size, 1));
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
    if (!memory || H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, at.data(), nullptr, extent.data(), nullptr) < 0)
      return fail_library(EIO, "a part of it cannot be selected");
    CODECFS_TRY(copy_piece(memory.get(), space_.get(), elements));
  }
  return {};
}

Result<> ElementCopy::copy_piece(hid_t memory_space, hid_t file_space, uint64_t elements) const {
  Values values(type_.get(), memory_space, layout_, elements);
  if (H5Dread(from_, type_.get(), memory_space, file_space, H5P_DEFAULT, values.data()) < 0)
    return fail_library(EIO, "it cannot be read");
  values.were_read();
  CODECFS_TRY(references_->translate(layout_, values.bytes()));
  if (H5Dwrite(to_, type_.get(), memory_space, file_space, H5P_DEFAULT, values.data()) < 0)
    return fail_library(EIO, "it cannot be written");
  return {};
}

}  // namespace codecfs::hdf5
