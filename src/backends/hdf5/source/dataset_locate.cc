// Locates and lists a dataset's chunks.

#include <algorithm>
#include <array>
#include <optional>

#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/source/dataset.h"

namespace codecfs::hdf5 {
namespace {

// Grids up to this size are listed by a lookup of every cell.
constexpr uint64_t kSmallGrid = 1 << 16;
// Larger grids are listed so too, as long as at least one of this many cells is stored.
constexpr uint64_t kSparse = 16;
// Cells that are looked up before other threads may lock the library.
constexpr uint64_t kCellsAtOnce = 1024;

}  // namespace

Dataset::Region Dataset::region_of(uint64_t number) const {
  const ChunkGrid& grid = facts_.grid;
  Region region;
  region.coordinates.resize(grid.rank());
  region.start.resize(grid.rank());
  region.count.resize(grid.rank());
  grid.coordinates_of(number, region.coordinates);
  for (size_t d = 0; d < grid.rank(); ++d) {
    region.start[d] = region.coordinates[d] * grid.chunks()[d];
    region.count[d] = std::min(grid.chunks()[d], grid.shape()[d] - region.start[d]);
    region.elements *= region.count[d];
    region.first = region.first * grid.shape()[d] + region.start[d];
  }
  return region;
}

// For functions that do not call libhdf5.
Result<> Dataset::check_current() const {
  const LibraryLock lock;
  if (id() < 0) return fail(ESTALE, "{}: its storage is another one now", name_);
  return {};
}

Result<StoredChunk> Dataset::stored_chunk(const Region& region) const {
  const LibraryLock lock;
  if (longer_ && valid_part(region).elements == 0) {
    CODECFS_TRY(check_current());
    return StoredChunk{};
  }
  auto chunk = locate_chunk(id(), {region.start.data(), rank_});
  if (!chunk) return fail(chunk.error().code, "{}: {}", name_, chunk.error().reason);
  if (const auto written = file_.written_masks.find(address_);
      written != file_.written_masks.end() && written->second.chunk == facts_.grid.number_of(region.coordinates))
    chunk->filter_mask = written->second.filter_mask;
  if (raw_partial_chunks_ && is_partial(region)) chunk->filter_mask = ~uint32_t{0};
  return chunk;
}

Result<ChunkInfo> Dataset::locate(uint64_t number) const {
  if (number >= facts_.grid.count()) return fail(ENOENT, "{} has no chunk of the number {}", name_, number);
  const Region region = region_of(number);
  ChunkInfo info;
  if (facts_.storage == Storage::chunked) {
    CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
    if (!chunk.stored) return info;
    info.stored = true;
    info.stored_size = chunk.size;
    info.offset = chunk.address;
    const size_t count = facts_.filters.size();
    info.filter_mask = count < 32 ? chunk.filter_mask & ((uint32_t{1} << count) - 1) : chunk.filter_mask;
    return info;
  }
  CODECFS_TRY(check_current());
  info.stored = has_storage_;
  if (!info.stored) return info;
  const uint64_t element = mapped_.text ? 16 : facts_.type.size;  // size in the array of a string, without its text
  info.stored_size = region.elements * element;
  if (facts_.storage == Storage::contiguous) info.offset = offset_ + region.first * element;
  return info;
}

Result<std::vector<uint64_t>> Dataset::stored_chunks(uint64_t from, size_t limit) {
  const ChunkGrid& grid = facts_.grid;
  std::vector<uint64_t> numbers;
  if (facts_.storage != Storage::chunked) {
    CODECFS_TRY(check_current());
    if (has_storage_)
      for (uint64_t number = from; number < grid.count() && numbers.size() < limit; ++number) numbers.push_back(number);
    return numbers;
  }

  if (grid.count() > kSmallGrid) {
    const LibraryLock lock;
    if (!stored_count_) {
      CODECFS_ASSIGN(stored_count_, count_stored_chunks(id()));
    }
    if (*stored_count_ < grid.count() / kSparse) {
      if (file_.listing_owner != this) {
        CODECFS_ASSIGN(auto all, list_stored_chunks(id(), facts_.grid, rank_));
        file_.listing = std::make_shared<const std::vector<uint64_t>>(std::move(all));
        file_.listing_owner = this;
      }
      const auto begin = std::ranges::lower_bound(*file_.listing, from);
      const auto left = static_cast<size_t>(file_.listing->end() - begin);
      numbers.assign(begin, begin + static_cast<ptrdiff_t>(std::min(limit, left)));
      if (numbers.empty()) {
        file_.listing.reset();
        file_.listing_owner = nullptr;
      }
      return numbers;
    }
  }

  std::vector<uint64_t> offset(grid.rank());
  for (uint64_t number = from; number < grid.count() && numbers.size() < limit;) {
    const LibraryLock lock;
    const uint64_t until = std::min(grid.count(), number + kCellsAtOnce);
    for (; number < until && numbers.size() < limit; ++number) {
      grid.coordinates_of(number, offset);
      for (size_t d = 0; d < rank_; ++d) offset[d] *= grid.chunks()[d];
      if (longer_ && !std::ranges::equal(offset, stored_shape(), std::less())) continue;
      CODECFS_ASSIGN(const bool stored, is_chunk_stored(id(), {offset.data(), rank_}));
      if (stored) numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace codecfs::hdf5
