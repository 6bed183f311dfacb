#include "backends/hdf5/stored_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"
#include "backends/hdf5/write_log_format.h"
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

/// Cuts a box of elements into pieces of bounded size. For each: selects it in `space`, and calls
/// `use(memory_space, elements)`.
template <class Function>
Result<> in_pieces_of(hid_t space, size_t element_bytes, std::span<const hsize_t> start, std::span<const hsize_t> count,
                      const Function& use) {
  const std::vector<uint64_t> piece =
      cut_into_pieces(count, std::max<uint64_t>(ElementCopy::kPieceBytes / element_bytes, 1));
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

/// The same for everything that a dataset's space has.
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

Result<uint64_t> checksum_of_elements(hid_t dataset) {
  const Handle stored(H5Dget_type(dataset));
  const Handle type(H5Tcopy(stored.get()));
  const Handle space(H5Dget_space(dataset));
  const size_t size = H5Tget_size(type.get());
  if (!type || !space || size == 0) return fail_library(EIO, "its type");
  uint64_t checksum = 0;
  std::vector<std::byte> bytes;
  CODECFS_TRY(in_pieces(space.get(), size, [&](hid_t memory, uint64_t elements) -> Result<> {
    bytes.resize(elements * size);
    if (H5Dread(dataset, type.get(), memory, space.get(), H5P_DEFAULT, bytes.data()) < 0)
      return fail_library(EIO, "it cannot be read");
    checksum = continue_checksum(checksum, bytes);
    return {};
  }));
  return checksum;
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
  return in_pieces(space_.get(), layout_.size,
                   [this](hid_t memory, uint64_t elements) { return copy_piece(memory, space_.get(), elements); });
}

Result<> ElementCopy::copy_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const {
  return in_pieces_of(space_.get(), layout_.size, start, count,
                      [this](hid_t memory, uint64_t elements) { return copy_piece(memory, space_.get(), elements); });
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
