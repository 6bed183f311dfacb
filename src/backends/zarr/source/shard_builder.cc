#include "backends/zarr/source/shard_builder.h"

#include <algorithm>
#include <deque>
#include <map>
#include <new>
#include <utility>

#include "filters/core/pipeline.h"

namespace codecfs::zarr {
namespace {

/// A shard with its codecs undone, and its index.
struct DecodedShard {
  Buffer memory;  // empty: no codecs
  Bytes bytes;
  std::vector<ShardEntry> entries;

  [[nodiscard]] Bytes part(const ShardEntry& entry) const { return bytes.subspan(entry.offset, entry.size); }
};

Result<DecodedShard> decode_shard(const ShardLevel& level, Bytes stored) {
  DecodedShard shard;
  shard.bytes = stored;
  if (!level.stages.empty()) {
    CODECFS_ASSIGN(const auto pipeline, filters::Pipeline::make(level.stages, {}));
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored));
    CODECFS_ASSIGN(shard.memory, pipeline.decode(std::move(copy)));
    shard.bytes = shard.memory.bytes();
  }
  const uint64_t index_bytes = level.index_bytes();
  if (shard.bytes.size() < index_bytes)
    return fail(EIO, "it has {} bytes, too few for the index of {}: the shard is damaged", shard.bytes.size(),
                index_bytes);
  const Bytes index = level.index.is_at_start ? shard.bytes.first(index_bytes) : shard.bytes.last(index_bytes);
  CODECFS_ASSIGN(shard.entries, decode_shard_index(level, index, shard.bytes.size()));
  return shard;
}

/// A shard of these chunks, by position.
Result<Buffer> encode_shard(const ShardLevel& level, const std::map<uint64_t, Bytes>& chunks) {
  std::vector<ShardEntry> entries(level.count, {ShardEntry::kAbsent, ShardEntry::kAbsent});
  const uint64_t begin = level.index.is_at_start ? level.index_bytes() : 0;
  uint64_t end = begin;
  for (const auto& [position, bytes] : chunks) {
    entries[position] = {.offset = end, .size = bytes.size()};
    end += bytes.size();
  }
  CODECFS_ASSIGN(const Buffer index, encode_shard_index(level, entries));
  CODECFS_ASSIGN(Buffer shard, Buffer::allocate(level.index.is_at_start ? end : end + index.size()));
  std::ranges::copy(index.bytes(), shard.data() + (level.index.is_at_start ? 0 : end));
  std::byte* at = shard.data() + begin;
  for (const auto& [position, bytes] : chunks) at = std::ranges::copy(bytes, at).out;
  if (level.stages.empty()) return shard;
  CODECFS_ASSIGN(const auto pipeline, filters::Pipeline::make(level.stages, {}));
  CODECFS_ASSIGN(filters::EncodedChunk encoded, pipeline.encode(shard.bytes()));
  if (encoded.filter_mask != 0) return fail(EIO, "a filter was skipped, which Zarr cannot represent");
  return std::move(encoded.bytes);
}

}  // namespace

Result<std::optional<Buffer>> change_shard(const ShardLayout& layout, std::optional<Bytes> old,
                                           std::span<const ChunkChange> changes, size_t level) try {
  const ShardLevel& form = layout.levels[level];
  DecodedShard shard;
  std::map<uint64_t, Bytes> chunks;  // or the shards of the next level
  if (old) {
    CODECFS_ASSIGN(shard, decode_shard(form, *old));
    for (uint64_t position = 0; position < form.count; ++position)
      if (const ShardEntry& entry = shard.entries[position]; entry.is_stored()) chunks[position] = shard.part(entry);
  }
  std::deque<Buffer> made;
  while (!changes.empty()) {
    const uint64_t position = changes.front().positions[level];
    const auto next =
        std::ranges::find_if(changes, [&](const ChunkChange& change) { return change.positions[level] != position; });
    const auto group = changes.first(static_cast<size_t>(next - changes.begin()));
    changes = changes.subspan(group.size());
    std::optional<Bytes> content;
    if (level + 1 == layout.levels.size()) {
      if (group.front().bytes != nullptr) content = group.front().bytes->bytes();
    } else {
      const auto inner = chunks.find(position);
      CODECFS_ASSIGN(
          auto changed,
          change_shard(layout, inner == chunks.end() ? std::nullopt : std::optional(inner->second), group, level + 1));
      if (changed) content = made.emplace_back(*std::move(changed)).bytes();
    }
    if (content) {
      chunks[position] = *content;
    } else {
      chunks.erase(position);
    }
  }
  if (chunks.empty()) return std::nullopt;
  CODECFS_ASSIGN(Buffer encoded, encode_shard(form, chunks));
  return encoded;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to change a shard");
}

Result<> for_each_chunk(const ShardLayout& layout, Bytes stored, const std::function<Result<>(Bytes)>& visit,
                        size_t level) try {
  const ShardLevel& form = layout.levels[level];
  CODECFS_ASSIGN(const DecodedShard shard, decode_shard(form, stored));
  const uint64_t begin = form.index.is_at_start ? form.index_bytes() : 0;
  const uint64_t end = begin + shard.bytes.size() - form.index_bytes();
  for (const ShardEntry& entry : shard.entries) {
    if (!entry.is_stored()) continue;
    if (entry.offset < begin || entry.offset + entry.size > end)
      return fail(EIO, "its chunk at {} overlaps its index", entry.offset);
    CODECFS_TRY(level + 1 == layout.levels.size() ? visit(shard.part(entry))
                                                  : for_each_chunk(layout, shard.part(entry), visit, level + 1));
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to read a shard");
}

}  // namespace codecfs::zarr
