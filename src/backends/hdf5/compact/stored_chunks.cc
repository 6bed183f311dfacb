#include "backends/hdf5/compact/stored_chunks.h"

#include <algorithm>
#include <array>

#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {

Result<ChunkList> ChunkList::of(hid_t dataset, hid_t properties) {
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  std::array<hsize_t, H5S_MAX_RANK> shape{};
  const Handle space(H5Dget_space(dataset));
  const int dimensions = H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
  if (dimensions < 1 || H5Pget_chunk(properties, dimensions, chunk.data()) != dimensions)
    return fail_library(EIO, "its chunks");
  const auto rank = static_cast<size_t>(dimensions);
  ChunkList chunks;
  CODECFS_ASSIGN(chunks.grid,
                 ChunkGrid::make({shape.begin(), shape.begin() + rank}, {chunk.begin(), chunk.begin() + rank}));
  CODECFS_ASSIGN(chunks.stored, list_stored_chunks(dataset, chunks.grid, rank));
  return chunks;
}

std::vector<hsize_t> ChunkList::start_of(uint64_t number) const {
  std::vector<uint64_t> coordinates(grid.rank());
  grid.coordinates_of(number, coordinates);
  std::vector<hsize_t> start(grid.rank());
  for (size_t d = 0; d < start.size(); ++d) start[d] = coordinates[d] * grid.chunks()[d];
  return start;
}

std::vector<hsize_t> ChunkList::extent_of(uint64_t number) const {
  std::vector<hsize_t> extent = start_of(number);
  for (size_t d = 0; d < extent.size(); ++d)
    extent[d] = std::min<uint64_t>(grid.chunks()[d], grid.shape()[d] - extent[d]);
  return extent;
}

Result<RawChunk> RawChunk::read(hid_t dataset, const ChunkList& chunks, uint64_t number, uint64_t file_bytes) {
  const std::vector<hsize_t> start = chunks.start_of(number);
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(dataset, start.data(), &size) < 0)
    return fail_library(EIO, "chunk {} cannot be found", chunks.grid.name_of(number));
  if (size > file_bytes)
    return fail(EIO, "chunk {} has {} bytes, more than the file", chunks.grid.name_of(number), size);
  RawChunk chunk;
  chunk.bytes.resize(size);
  if (read_raw_chunk(dataset, start.data(), chunk.mask, chunk.bytes.data(), size) < 0)
    return fail_library(EIO, "chunk {} cannot be read", chunks.grid.name_of(number));
  return chunk;
}

Result<bool> is_data_stored(hid_t dataset, uint64_t file_bytes) {
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  if (H5Dget_space_status(dataset, &status) < 0) return fail_library(EIO, "its place in the file");
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return false;
  const uint64_t size = H5Dget_storage_size(dataset);
  if (size > file_bytes) return fail(EIO, "its data has {} bytes, more than the file", size);
  return true;
}

}  // namespace codecfs::hdf5
