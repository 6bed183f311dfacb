#include "backends/worker/chunk_index.h"

#include <algorithm>
#include <optional>

namespace codecfs::worker {

bool ChunkIndex::follows_whole_range(const ChunkRanges::Key& key, uint64_t edits) const {
  if (key.block == 0) return false;
  const auto before = ranges_->ranges_.get({key.index, key.variable, key.block - 1});
  return before && before->edits == edits && before->found.places.size() == kBlock && is_current(before->found);
}

Result<ChunkIndex::Found> ChunkIndex::find(ObjectId variable, uint64_t number) {
  const ChunkRanges::Key key{number_, variable, number / kBlock};
  const uint64_t edits = edits_;
  auto known = ranges_->ranges_.get(key);
  // Between the changes of a writer, all of the range would be fetched for each chunk that it stores.
  if (known && !is_current(known->found)) known = {};
  const auto pick = [&](const Range& block) -> std::optional<Found> {
    if (block.edits != edits || number < block.first || number - block.first >= block.found.places.size())
      return std::nullopt;
    return Found{block.found.places[number - block.first], block.found.layout, block.found.slot,
                 block.found.generation};
  };
  if (known)
    if (const auto found = pick(*known)) return *found;

  auto block = std::make_shared<Range>();
  block->edits = edits;
  block->lookups = known ? known->lookups + 1 : 1;
  // One chunk, then a few, then all of the range; all of it at once after all of the range before it.
  constexpr uint64_t kFew = 16;
  const uint64_t begin = key.block * kBlock;
  uint64_t count = 1;
  block->first = number;
  if (block->lookups == 2) {
    count = std::min(kFew, begin + kBlock - number);
  } else if (block->lookups > 2 || follows_whole_range(key, edits)) {
    block->first = begin;
    count = kBlock;
  }
  auto fetched = fetch_(variable, block->first, count);
  if (!fetched && block->first != number) {
    block->first = number;  // another chunk of the range cannot be looked up
    fetched = fetch_(variable, number, 1);
  }
  if (!fetched) return pass_on(fetched);
  block->found = *std::move(fetched);
  if (number - block->first >= block->found.places.size()) {
    // A chunk before it cannot be looked up.
    CODECFS_ASSIGN(block->found, fetch_(variable, number, 1));
    block->first = number;
    if (block->found.places.empty()) return fail(EIO, "a chunk has no place");
  }
  const Found found{block->found.places[number - block->first], block->found.layout, block->found.slot,
                    block->found.generation};
  const uint64_t weight = sizeof(Range) + block->found.places.size() * sizeof(hdf5::StoredPlace);
  ranges_->ranges_.put(key, std::move(block), weight);
  return found;
}

}  // namespace codecfs::worker
