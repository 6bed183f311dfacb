#include "backends/hdf5/dataset_copy.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/hdf5/chunk_index.h"
#include "backends/hdf5/filter_registration.h"
#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"
#include "backends/hdf5/stored_values.h"
#include "backends/hdf5/write_log_format.h"
#include "base/buffer.h"
#include "base/long_work.h"
#include "model/chunk_grid.h"

namespace codecfs::hdf5 {
namespace {

/// The chunks of a dataset that are stored.
struct Chunks {
  ChunkGrid grid;
  std::vector<uint64_t> stored;

  static Result<Chunks> of(hid_t dataset, hid_t properties) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    std::array<hsize_t, H5S_MAX_RANK> shape{};
    const Handle space(H5Dget_space(dataset));
    const int dimensions = H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
    if (dimensions < 1 || H5Pget_chunk(properties, dimensions, chunk.data()) != dimensions)
      return fail_library(EIO, "its chunks");
    const auto rank = static_cast<size_t>(dimensions);
    Chunks chunks;
    CODECFS_ASSIGN(chunks.grid,
                   ChunkGrid::make({shape.begin(), shape.begin() + rank}, {chunk.begin(), chunk.begin() + rank}));
    CODECFS_ASSIGN(chunks.stored, list_stored_chunks(dataset, chunks.grid, rank));
    return chunks;
  }

  /// Where a chunk begins, in elements.
  [[nodiscard]] std::vector<hsize_t> start_of(uint64_t number) const {
    std::vector<uint64_t> coordinates(grid.rank());
    grid.coordinates_of(number, coordinates);
    std::vector<hsize_t> start(grid.rank());
    for (size_t d = 0; d < start.size(); ++d) start[d] = coordinates[d] * grid.chunks()[d];
    return start;
  }
};

/// A fill value that has references would have to be translated before there is anything that they refer to.
Result<> check_fill_value(hid_t properties, hid_t type) {
  const Handle memory(H5Tcopy(type));
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(memory.get()));
  if (!layout.references) return {};
  H5D_fill_value_t kind = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(properties, &kind) < 0) return fail_library(EIO, "its fill value");
  if (kind != H5D_FILL_VALUE_USER_DEFINED) return {};
  std::vector<std::byte> value(layout.size);
  if (H5Pget_fill_value(properties, memory.get(), value.data()) < 0) return fail_library(EIO, "its fill value");
  if (std::ranges::all_of(value, [](std::byte byte) { return byte == std::byte{0}; })) return {};
  return fail(EOPNOTSUPP, "its fill value holds references, which codecfs cannot copy");
}

Result<> check_filters(hid_t from_properties, hid_t made) {
  const Handle properties(H5Dget_create_plist(made));
  if (!properties) return fail_library(EIO, "the properties of its copy");
  CODECFS_ASSIGN(const std::vector<FilterStage> before, stored_chain(from_properties));
  CODECFS_ASSIGN(const std::vector<FilterStage> after, stored_chain(properties.get()));
  const auto same = [](const FilterStage& a, const FilterStage& b) {
    return a.id == b.id && a.parameters == b.parameters && a.optional == b.optional;
  };
  if (std::ranges::equal(before, after, same)) return {};
  return fail(EOPNOTSUPP, "libhdf5 does not take its filters with the parameters that they have");
}

/// A chunk as it is stored.
struct RawChunk {
  std::vector<hsize_t> start;
  uint32_t mask = 0;
  Bytes bytes;
};

/// Hands every stored chunk on, in the order of their numbers.
template <class Function>
Result<> for_each_chunk(hid_t dataset, hid_t properties, uint64_t file_bytes, const Function& use) {
  CODECFS_ASSIGN(const Chunks chunks, Chunks::of(dataset, properties));
  std::vector<std::byte> buffer;
  for (const uint64_t number : chunks.stored) {
    RawChunk chunk{.start = chunks.start_of(number), .mask = 0, .bytes = {}};
    hsize_t size = 0;
    if (H5Dget_chunk_storage_size(dataset, chunk.start.data(), &size) < 0)
      return fail_library(EIO, "chunk {} cannot be found", chunks.grid.name_of(number));
    if (size > file_bytes)
      return fail(EIO, "chunk {} has {} bytes, more than the file", chunks.grid.name_of(number), size);
    if (buffer.size() < size) buffer.resize(size);
    if (read_raw_chunk(dataset, chunk.start.data(), chunk.mask, buffer.data(), size) < 0)
      return fail_library(EIO, "chunk {} cannot be read", chunks.grid.name_of(number));
    chunk.bytes = Bytes(buffer).first(size);
    const Result<> used = use(chunk);
    LongWork::add_to_current(size);
    if (!used) return fail(used.error().code, "chunk {} {}", chunks.grid.name_of(number), used.error().reason);
  }
  return {};
}

Result<> copy_chunks(hid_t from, hid_t to, hid_t properties, uint64_t file_bytes) {
  return for_each_chunk(from, properties, file_bytes, [to](const RawChunk& chunk) -> Result<> {
    if (H5Dwrite_chunk(to, H5P_DEFAULT, chunk.mask, chunk.start.data(), chunk.bytes.size(), chunk.bytes.data()) < 0)
      return fail_library(EIO, "cannot be written");
    return {};
  });
}

Result<uint64_t> checksum_of_chunks(hid_t dataset, hid_t properties, uint64_t file_bytes) {
  uint64_t checksum = 0;
  CODECFS_TRY(for_each_chunk(dataset, properties, file_bytes, [&checksum](const RawChunk& chunk) -> Result<> {
    checksum = continue_checksum(checksum, std::as_bytes(std::span(chunk.start)));
    checksum = continue_checksum(checksum, std::as_bytes(std::span(&chunk.mask, 1)));
    checksum = continue_checksum(checksum, chunk.bytes);
    return {};
  }));
  return checksum;
}

/// Contiguous data that was never written has no place in the file.
Result<bool> is_stored(hid_t dataset, uint64_t file_bytes) {
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  if (H5Dget_space_status(dataset, &status) < 0) return fail_library(EIO, "its place in the file");
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return false;
  const uint64_t size = H5Dget_storage_size(dataset);
  if (size > file_bytes) return fail(EIO, "its data has {} bytes, more than the file", size);
  return true;
}

}  // namespace

Result<Handle> make_dataset_like(hid_t from, hid_t type, hid_t to, StandIns& stand_ins) {
  const Handle properties(H5Dget_create_plist(from));
  const Handle space(H5Dget_space(from));
  if (!properties || !space) return fail_library(EIO, "its properties");
  CODECFS_TRY(check_fill_value(properties.get(), type));
  CODECFS_TRY(stand_ins.register_filters(properties.get()));
  Handle made(H5Dcreate_anon(to, type, space.get(), properties.get(), H5P_DEFAULT));
  if (!made) return fail_library(EOPNOTSUPP, "libhdf5 does not make a dataset like it");
  CODECFS_TRY(check_filters(properties.get(), made.get()));
  return made;
}

Result<bool> cannot_be_made(hid_t dataset) {
  const Handle properties(H5Dget_create_plist(dataset));
  const Handle type(H5Dget_type(dataset));
  if (!properties || !type) return fail_library(EIO, "its properties");
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_VLEN && (kind != H5T_STRING || H5Tis_variable_str(type.get()) <= 0)) return false;
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties.get()));
  return !std::ranges::all_of(chain, &FilterStage::optional);
}

Result<Handle> copy_whole_dataset(hid_t from, hid_t to, StandIns& stand_ins) {
  const Handle properties(H5Dget_create_plist(from));
  const Handle type(H5Dget_type(from));
  if (!properties || !type) return fail_library(EIO, "its properties");
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  if (layout.references || H5Tcommitted(type.get()) != 0)
    return fail(
        EOPNOTSUPP,
        "it is of variable length with filters that are not optional, and its type is committed or has references");
  CODECFS_TRY(stand_ins.provide_filters(properties.get()));
  // libhdf5 copies to a name; the group that has it goes with it.
  const Handle nameless(H5Gcreate_anon(to, H5P_DEFAULT, H5P_DEFAULT));
  const Handle how(H5Pcreate(H5P_OBJECT_COPY));
  if (!nameless || H5Pset_copy_object(how.get(), H5O_COPY_WITHOUT_ATTR_FLAG) < 0 ||
      H5Ocopy(from, ".", nameless.get(), "copy", how.get(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "it cannot be copied");
  Handle made(H5Dopen2(nameless.get(), "copy", H5P_DEFAULT));
  if (!made || H5Ldelete(nameless.get(), "copy", H5P_DEFAULT) < 0) return fail_library(EIO, "its copy");
  CODECFS_TRY(check_filters(properties.get(), made.get()));
  return made;
}

Result<bool> data_needs_library(hid_t dataset) {
  const Handle stored(H5Dget_type(dataset));
  const Handle type(H5Tcopy(stored.get()));
  if (!type) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  return layout.references || layout.heap;
}

Result<> copy_storage(hid_t from, hid_t to, uint64_t file_bytes, const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(from));
  if (!properties) return fail_library(EIO, "its properties");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_CHUNKED) return copy_chunks(from, to, properties.get(), file_bytes);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0) return {};
  CODECFS_ASSIGN(const bool stored, is_stored(from, file_bytes));
  if (!stored) return {};
  CODECFS_ASSIGN(const ElementCopy copy, ElementCopy::make(from, to, references));
  return copy.copy_all();
}

Result<uint64_t> checksum_of_storage(hid_t dataset, uint64_t file_bytes) {
  const Handle properties(H5Dget_create_plist(dataset));
  if (!properties) return fail_library(EIO, "its properties");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_CHUNKED) return checksum_of_chunks(dataset, properties.get(), file_bytes);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0) return uint64_t{0};
  CODECFS_ASSIGN(const bool stored, is_stored(dataset, file_bytes));
  if (!stored) return uint64_t{0};
  return checksum_of_elements(dataset);
}

Result<> copy_elements(hid_t from, hid_t to, const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(from));
  if (!properties) return fail_library(EIO, "its properties");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_VIRTUAL) return {};
  if (H5Pget_external_count(properties.get()) > 0)
    return fail(EOPNOTSUPP, "what it has in other files refers to places in this one");
  CODECFS_ASSIGN(const ElementCopy copy, ElementCopy::make(from, to, references));
  if (layout != H5D_CHUNKED) {
    if (H5Dget_storage_size(from) == 0) return {};
    return copy.copy_all();
  }
  CODECFS_ASSIGN(const Chunks chunks, Chunks::of(from, properties.get()));
  for (const uint64_t number : chunks.stored) {
    const std::vector<hsize_t> start = chunks.start_of(number);
    std::vector<hsize_t> count(start.size());
    for (size_t d = 0; d < start.size(); ++d)
      count[d] = std::min<uint64_t>(chunks.grid.chunks()[d], chunks.grid.shape()[d] - start[d]);
    CODECFS_TRY(copy.copy_box(start, count));
  }
  return {};
}

}  // namespace codecfs::hdf5
