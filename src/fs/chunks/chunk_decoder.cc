#include "fs/chunks/chunk_decoder.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

namespace codecfs::fs {

Result<> check_place(const Nodes& nodes, Dataset& dataset, const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const VariableViewPtr now, dataset.variable(chunk.object));
  // Last: the shape may have changed twice, and be the old one again.
  CODECFS_TRY(nodes.at(chunk.key));
  // A place that was made while the shape changed may have a number of the old shape and an inode number of the new
  // one.
  if (now == chunk.variable) return {};
  const ChunkGrid& grid = now->facts->grid;
  const std::vector<uint64_t>& before = chunk.variable->facts->grid.cells();
  const bool is_same = chunk.number < grid.count() && before.size() == grid.rank() &&
                       std::ranges::equal(grid.cells() | std::views::drop(1), before | std::views::drop(1));
  if (!is_same) return std::unexpected(Error{ESTALE, {}});
  return {};
}

template <typename T>
Result<T> ChunkDecoder::checked(const ChunkPlace& chunk, Result<T> read) {
  // A chunk that is absent is an answer, too. Any other error tells more than that the place has changed.
  if (read || read.error().code == ENOENT) CODECFS_TRY(check_place(nodes_, dataset_, chunk));
  return read;
}

Result<ChunkPtr> ChunkDecoder::decoded(const ChunkPlace& chunk) {
  Result<ChunkPtr> bytes = cached(chunk);
  if (!bytes && bytes.error().code == ENOENT && chunk.variable->shows_absent_chunks()) bytes = cached_or_fill(chunk);
  return checked(chunk, std::move(bytes));
}

Result<ChunkPtr> ChunkDecoder::stored(const ChunkPlace& chunk) { return checked(chunk, cached(chunk)); }

Result<ChunkPtr> ChunkDecoder::base_of(const ChunkPlace& chunk) { return checked(chunk, cached_or_fill(chunk)); }

Result<ChunkPtr> ChunkDecoder::part(const ChunkPlace& chunk, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(auto bytes, checked(chunk, dataset_.source().read_part(chunk.object, chunk.number, offset, size)));
  if (!bytes) return nullptr;
  stats_.bytes_stored += size;
  return std::make_shared<const Buffer>(*std::move(bytes));
}

Result<Buffer> ChunkDecoder::decode(const ChunkPlace& chunk) {
  const Helpers::Scope scope(helpers_);
  CODECFS_ASSIGN(DecodedChunk decoded, checked(chunk, dataset_.source().fetch_chunk(chunk.object, chunk.number)));
  stats_.bytes_stored += decoded.stored_size;
  if (decoded.is_changed && changed_outside_) changed_outside_(chunk);
  return std::move(decoded.bytes);
}

Result<ChunkPtr> ChunkDecoder::cached(const ChunkPlace& chunk) {
  return cache_.get(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
}

Result<ChunkPtr> ChunkDecoder::cached_or_fill(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  if (info.stored) {
    Result<ChunkPtr> bytes = cached(chunk);
    if (bytes || bytes.error().code != ENOENT) return bytes;
    // Removed since the lookup.
  }
  // All absent chunks of a variable share one fill chunk, cached under the inode number of its directory.
  CODECFS_ASSIGN(const Place place, nodes_.at(chunk.key));
  return cache_.get(place.node->ino(), decoding_bytes(*chunk.variable->facts),
                    [&] { return make_fill_chunk(*chunk.variable->facts); });
}

uint64_t ChunkDecoder::decoding_bytes(const Variable& variable) {
  // A chunk takes its decoded bytes, and as many again while a filter runs.
  return 2 * variable.chunk_bytes.value_or(uint64_t{1} << 20);
}

}  // namespace codecfs::fs
