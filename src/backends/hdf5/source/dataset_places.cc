// Where the chunks of a dataset are, for a process that reads the file without libhdf5.

#include <algorithm>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/source/dataset.h"

namespace codecfs::hdf5 {

/// Whether all bytes of the chunk are what the pipeline decodes.
bool Dataset::is_decodable(const Region& region) const {
  if (facts_.storage != Storage::chunked || !direct_ || facts_.unreadable) return false;
  return !longer_ || valid_part(region).elements == region.elements;
}

Result<StoredPlace> Dataset::place_of(uint64_t number) const {
  const Region region = region_of(number);
  StoredPlace place;
  if (facts_.storage == Storage::chunked) {
    CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
    if (!chunk.stored) return place;
    const size_t count = facts_.filters.size();
    place.offset = chunk.address;
    place.size = chunk.size;
    place.filter_mask = chunk.filter_mask;
    place.shown_mask = count < 32 ? chunk.filter_mask & ((uint32_t{1} << count) - 1) : chunk.filter_mask;
    place.has_offset = true;
    const bool is_direct = is_decodable(region) && facts_.chunk_bytes &&
                           chunk.size <= most_encoded_bytes(*facts_.chunk_bytes, pipeline_ ? &*pipeline_ : nullptr) &&
                           file_.bytes->is_in_source(chunk.address, chunk.size);
    place.kind = is_direct ? StoredPlace::Kind::encoded : StoredPlace::Kind::elsewhere;
    place.is_exact = has_exact_encoding(region) && chunk.filter_mask == 0;
    place.must_check = !facts_.ended_strings.empty();
    if (place.is_exact && !region.whole(facts_.grid)) {
      place.must_check |= !facts_.filters.empty();
      place.is_exact = place.must_check || chunk.size == facts_.chunk_bytes;
    }
    return place;
  }
  CODECFS_TRY(check_current());
  if (!has_storage_) return place;
  const uint64_t element = mapped_.text ? 16 : facts_.type.size;
  place.kind = StoredPlace::Kind::elsewhere;
  place.size = region.elements * element;
  if (facts_.storage != Storage::contiguous) return place;
  place.has_offset = true;
  place.offset = offset_ + region.first * element;
  const uint64_t end = region.first * element + place.size;
  if (direct_ && !facts_.unreadable && end <= storage_bytes_ && file_.bytes->is_in_source(place.offset, place.size))
    place.kind = StoredPlace::Kind::piece;
  // References to contiguous strings need to know it; all others are known to be as they are shown.
  place.must_check = place.is_exact =
      place.kind == StoredPlace::Kind::piece && !facts_.ended_strings.empty() && region.whole(facts_.grid);
  return place;
}

Result<StoredPlaces> Dataset::places(uint64_t first, uint64_t count) const {
  if (first >= facts_.grid.count()) return fail(ENOENT, "{} has no chunk of the number {}", name_, first);
  const LibraryLock lock;
  StoredPlaces found;
  found.layout = layout_;
  found.slot = SharedState::slot_of(address_);
  found.generation = file_.generation_of(address_);
  const uint64_t end = first + std::min(count, facts_.grid.count() - first);
  for (uint64_t number = first; number < end; ++number) {
    auto place = place_of(number);
    // An error is that of the chunk that was asked for.
    if (!place && number == first) return pass_on(place);
    if (!place) break;
    found.places.push_back(*place);
  }
  return found;
}

Result<std::optional<FetchedChunk>> Dataset::fetch_encoded(uint64_t number) const {
  if (number >= facts_.grid.count()) return fail(ENOENT, "{} has no chunk of the number {}", name_, number);
  const Region region = region_of(number);
  if (!is_decodable(region)) return std::nullopt;
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *facts_.chunk_bytes));
  if (stored.valid.elements != region.elements) return std::nullopt;
  return FetchedChunk{layout_, {std::move(stored.bytes), stored.chunk.filter_mask}};
}

}  // namespace codecfs::hdf5
