#pragma once
// Where the inner chunks of a sharded array are. Source: Zarr v3, "Sharding codec". The chunks of the presented array
// are the innermost chunks; a shard is one chunk file.
//
//   level 0   the shard, divided into inner chunks
//   level 1   each of these may be a shard itself, and so on
//
// Coordinates and shapes are in the order of the array's axes. A transpose in front of a sharding codec permutes the
// axes of its index: ShardLevel::order. Codecs in front of it that treat each element alone are the first codecs of the
// innermost chunks.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/zarr3_codecs.h"
#include "model/chunk_grid.h"
#include "model/data_type.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::zarr {

/// Offset and size of a stored inner chunk in its shard, in bytes.
struct ShardEntry {
  uint64_t offset = 0;
  uint64_t size = 0;

  static constexpr uint64_t kAbsent = UINT64_MAX;  // both, of a chunk that is not stored
  [[nodiscard]] bool is_stored() const { return offset != kAbsent; }
  bool operator==(const ShardEntry&) const = default;
};

/// How the index of a shard is stored.
struct ShardIndexForm {
  bool is_at_start = false;  // else at the end
  ByteOrder byte_order = ByteOrder::little;
  bool has_checksum = false;  // crc32c behind the entries
  /// Stored axis i is axis order[i] of the index, which has one axis more than the array; empty: the same order.
  std::vector<size_t> order;
  bool operator==(const ShardIndexForm&) const = default;
};

struct ShardLevel {
  std::vector<uint64_t> cells;  // inner chunks along each axis
  std::vector<size_t> order;    // axis i of the index is axis order[i] of the array; empty: the same order
  uint64_t count = 1;           // inner chunks
  ShardIndexForm index;
  std::vector<FilterStage> stages;  // that encode the whole shard

  /// Bytes of the stored index.
  [[nodiscard]] uint64_t index_bytes() const { return count * 16 + (index.has_checksum ? 4 : 0); }
  /// Position in the index of the inner chunk with these coordinates in the shard, and back.
  [[nodiscard]] uint64_t position_of(std::span<const uint64_t> coordinates) const;
  void coordinates_of(uint64_t position, std::span<uint64_t> coordinates) const;
};

struct ShardLayout {
  ChunkGrid grid;                  // of the shards
  std::vector<ShardLevel> levels;  // at least one, outermost first
};

/// An index with more inner chunks is refused.
inline constexpr uint64_t kMaxInnerChunks = uint64_t{1} << 24;

/// The layout and the codecs of the innermost chunks that the codec list of an array describes.
struct ShardedCodecs {
  std::optional<ShardLayout> layout;  // none: the array is not sharded
  std::vector<uint64_t> chunks;       // shape of the innermost chunks
  filters::Zarr3Codecs codecs;        // of the innermost chunks, with the order of all levels
};

/// `codecs`: of a zarr.json; `shape`, `chunks`: of the array and its chunk grid. EINVAL if they are malformed or do not
/// fit. What is valid but cannot be decoded is in Zarr3Codecs::unreadable.
Result<ShardedCodecs> parse_sharded_codecs(const Json& codecs, const DataType& type, const std::vector<uint64_t>& shape,
                                           const std::vector<uint64_t>& chunks);

/// Whether the shards of two arrays with the same grid of chunks are stored in the same way; none: no shards.
bool are_same_shards(const std::optional<ShardLayout>& one, const std::optional<ShardLayout>& other);

/// EOPNOTSUPP with the reason if such shards can only be read: a codec that follows a sharding codec cannot encode.
Result<> check_rewritable(const ShardLayout& layout);

/// Decodes an index of level.index_bytes() bytes: `count` entries in the order of positions. `shard_bytes`: size of the
/// shard, in which all stored chunks must be. EIO for a wrong checksum or an entry that is not valid.
Result<std::vector<ShardEntry>> decode_shard_index(const ShardLevel& level, Bytes index, uint64_t shard_bytes);
/// The inverse; `entries` has `count` items. ENOMEM.
Result<Buffer> encode_shard_index(const ShardLevel& level, std::span<const ShardEntry> entries);

}  // namespace codecfs::zarr
