// Datasets whose shown shape is larger than the stored one: which part of a stored chunk is valid, and growing the
// stored shape before a chunk beyond it is written.

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/source/dataset.h"
#include "model/fill.h"

namespace codecfs::hdf5 {

// Under the LibraryLock. Queries libhdf5 again after each change or rollback.
const std::vector<uint64_t>& Dataset::stored_shape() const {
  if (!longer_) return facts_.grid.shape();
  const uint64_t generation = file_.generation_of(address_);
  if (stored_epoch_ == file_.epoch && stored_generation_ == generation) return stored_shape_;
  const Handle space(H5Dget_space(id()));
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  if (space && H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr) == static_cast<int>(rank_)) {
    std::copy_n(dims.begin(), rank_, stored_shape_.begin());
    stored_epoch_ = file_.epoch;
    stored_generation_ = generation;
  }
  return stored_shape_;
}

// The part of a chunk within the stored array; stored bytes beyond it are undefined.
Dataset::Region Dataset::valid_part(Region region) const {
  if (!longer_) return region;
  const LibraryLock lock;
  const std::vector<uint64_t>& shape = stored_shape();
  region.elements = 1;
  for (size_t d = 0; d < region.count.size(); ++d) {
    region.count[d] = std::min(region.count[d], shape[d] - std::min(shape[d], region.start[d]));
    region.elements *= region.count[d];
  }
  return region;
}

bool Dataset::is_partial(const Region& region) const { return !valid_part(region).whole(facts_.grid); }

// Iterates over contiguous rows.
void Dataset::fill_beyond(const Region& valid, MutableBytes chunk) const {
  const std::vector<uint64_t>& chunks = facts_.grid.chunks();
  const uint64_t row = chunks.back() * facts_.type.size;
  for (uint64_t number = 0; number * row < chunk.size(); ++number) {
    uint64_t rest = number;
    bool inside = true;
    for (size_t d = chunks.size() - 1; d-- > 0; rest /= chunks[d]) inside &= rest % chunks[d] < valid.count[d];
    const uint64_t kept = inside ? valid.count.back() * facts_.type.size : 0;
    repeat_element(facts_.fill, chunk.subspan(number * row, row).subspan(kept));
  }
}

Result<> Dataset::store_shape_for(const Region& region) {
  if (!longer_ || valid_part(region).elements == region.elements) return {};
  return store_shape();
}

Result<> Dataset::store_shape() {
  if (!longer_) return {};
  const std::lock_guard one(file_.shape_mutex);
  {
    const LibraryLock lock;
    if (stored_shape() == facts_.grid.shape()) return {};
  }
  for (size_t d = 0; d < rank_; ++d) CODECFS_TRY(clear_beyond(d));
  register_temporarily(facts_);
  const ChangeTurn turn(file_);
  const LibraryRead library;
  CODECFS_TRY(file_.allow_change(0));
  note_change();
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  std::copy_n(facts_.grid.shape().begin(), rank_, dims.begin());
  if (H5Dset_extent(id(), dims.data()) >= 0) return {};
  return file_.change_failed(fail_library(EIO, "{}: changing its shape", name_));
}

// Stored bytes beyond the end of a dimension must not appear when the array grows, so overwrites them with fill. No
// other thread writes an edge chunk meanwhile, because all writers call this first.
Result<> Dataset::clear_beyond(size_t dimension) {
  const ChunkGrid& grid = facts_.grid;
  const std::vector<uint64_t>& chunks = grid.chunks();
  std::optional<LibraryLock> lock(std::in_place);
  const std::vector<uint64_t> stored = stored_shape();
  lock.reset();
  if (!direct_ || stored[dimension] == grid.shape()[dimension] || stored[dimension] % chunks[dimension] == 0) return {};
  CODECFS_ASSIGN(ChunkGrid edge, ChunkGrid::make(stored, chunks));
  std::vector<uint64_t> cells = edge.cells();
  const uint64_t last = cells[dimension] - 1;
  cells[dimension] = 1;
  CODECFS_ASSIGN(edge, ChunkGrid::make(cells, std::vector<uint64_t>(cells.size(), 1)));
  std::vector<uint64_t> at(cells.size());
  for (uint64_t number = 0; number < edge.count(); ++number) {
    edge.coordinates_of(number, at);
    at[dimension] = last;
    CODECFS_TRY(clear_chunk(grid.number_of(at)));
  }
  return {};
}

Result<> Dataset::clear_chunk(uint64_t number) {
  const Region region = region_of(number);
  CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
  if (!chunk.stored) return {};
  if (!pipeline_) return fail(pipeline_error_->code, "{}: {}", name_, pipeline_error_->reason);
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *facts_.chunk_bytes));
  CODECFS_ASSIGN(Buffer found, decode(std::move(stored)));
  const bool is_whole = found.size() == *facts_.chunk_bytes;
  CODECFS_ASSIGN(found, pad_chunk(std::move(found), *facts_.chunk_bytes, facts_.fill));
  CODECFS_ASSIGN(Buffer cleared, Buffer::copy_of(found.bytes()));
  fill_beyond(stored.valid, cleared.mutable_bytes());
  if (is_whole && std::ranges::equal(found.bytes(), cleared.bytes())) return {};
  return store_partial(region, cleared.bytes());
}

Result<> Dataset::store_partial(const Region& region, Bytes chunk) {
  if (pipeline_->empty() || raw_partial_chunks_) return store(region, chunk, 0);
  CODECFS_ASSIGN(const filters::EncodedChunk encoded, pipeline_->encode(chunk));
  return store(region, encoded.bytes.bytes(), encoded.filter_mask);
}

Result<> Dataset::store_whole(uint64_t number) {
  const Region region = region_of(number);
  if (!is_partial(region)) return {};
  CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
  if (!chunk.stored || !pipeline_) return {};
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *facts_.chunk_bytes));
  auto found = decode(std::move(stored));
  if (!found && found.error().code == ENOMEM) return pass_on(found);
  if (!found || found->size() == *facts_.chunk_bytes) return {};  // a damaged one stays as it is
  CODECFS_ASSIGN(const Buffer whole, pad_chunk(*std::move(found), *facts_.chunk_bytes, facts_.fill));
  return store_partial(region, whole.bytes());
}

}  // namespace codecfs::hdf5
