#include "fs/chunks/chunk_decoder.h"

namespace codecfs::fs {

Result<ChunkPtr> ChunkDecoder::decoded(const ChunkPlace& chunk) {
  Result<ChunkPtr> bytes = stored(chunk);
  if (bytes || bytes.error().code != ENOENT || !chunk.variable->shows_absent_chunks()) return bytes;
  return base_of(chunk);
}

Result<ChunkPtr> ChunkDecoder::stored(const ChunkPlace& chunk) {
  return cache_.get(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
}

Result<ChunkPtr> ChunkDecoder::part(const ChunkPlace& chunk, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(auto bytes, dataset_.source().read_part(chunk.object, chunk.number, offset, size));
  if (!bytes) return nullptr;
  stats_.bytes_stored += size;
  return std::make_shared<const Buffer>(*std::move(bytes));
}

Result<Buffer> ChunkDecoder::decode(const ChunkPlace& chunk) {
  const Helpers::Scope scope(helpers_);
  CODECFS_ASSIGN(DecodedChunk decoded, dataset_.source().fetch_chunk(chunk.object, chunk.number));
  stats_.bytes_stored += decoded.stored_size;
  if (decoded.is_changed && changed_outside_) changed_outside_(chunk);
  return std::move(decoded.bytes);
}

Result<ChunkPtr> ChunkDecoder::base_of(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  if (info.stored) {
    Result<ChunkPtr> bytes = stored(chunk);
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
