#pragma once
// The bytes of a shard: its chunks, and what they become with changes of some of them. Pure functions of bytes in
// memory, for shards of all forms: nested, and encoded as a whole.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/zarr/metadata/shard_layout.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A chunk of a shard with another content.
struct ChunkChange {
  std::vector<uint64_t> positions;  // of the chunk, in the index of each level
  const Buffer* bytes = nullptr;    // as they are stored; null: it is removed
};

/// The shard after `changes`, which have different positions and are sorted by them; none if no chunk is left. `old`:
/// the shard as it is stored; none: there was none. `level`: of the shard in the layout. EIO if it is damaged, EINVAL
/// if a codec cannot encode it.
Result<std::optional<Buffer>> change_shard(const ShardLayout& layout, std::optional<Bytes> old,
                                           std::span<const ChunkChange> changes, size_t level = 0);

/// Calls visit() with the stored bytes of each chunk in a shard. EIO if an index is damaged, or a chunk overlaps it;
/// the errors of visit().
Result<> for_each_chunk(const ShardLayout& layout, Bytes shard, const std::function<Result<>(Bytes)>& visit,
                        size_t level = 0);

}  // namespace codecfs::zarr
