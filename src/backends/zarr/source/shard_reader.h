#pragma once
// Reads the inner chunks of sharded arrays: two reads of the shard's file for a chunk, its index (once per shard) and
// its bytes. The indexes of recently used shards are cached, at most about 64 MiB, and are valid as long as the file is
// the same. Thread-safe.
//
// A shard that is encoded as a whole (codecs behind the sharding codec) is read and decoded completely, and cached so.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/zarr/metadata/shard_layout.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"
#include "base/result.h"

namespace codecfs::zarr {

class ShardReader {
 public:
  /// `files` must outlive this object.
  explicit ShardReader(const Store& files) : files_(files) {}

  struct Place {
    uint64_t size = 0;               // stored bytes
    std::optional<uint64_t> offset;  // in the shard's file; none if the shard is encoded as a whole
  };
  /// None if the chunk is not stored. EIO if the shard is damaged.
  Result<std::optional<Place>> locate(const OpenArray& array, uint64_t number);
  /// These chunks will be read() soon, of a store that waits for a network: it requests them together. Waits for the
  /// indexes of their shards. Ignores errors, which read() will return.
  void expect(const OpenArray& array, std::span<const uint64_t> numbers);
  /// It will soon be asked where these chunks are: a store that waits for a network begins to request the indexes of
  /// the first of their shards. Does not wait.
  void expect_places(const OpenArray& array, std::span<const uint64_t> numbers);
  /// The stored bytes of a chunk, at most array.max_stored. None if it is not stored. EIO.
  Result<std::optional<Buffer>> read(const OpenArray& array, uint64_t number);
  /// As read(), in an open shard.
  Result<std::optional<Buffer>> read_in(const OpenArray& array, uint64_t number,
                                        std::shared_ptr<const StoredFile> file);
  /// The index of an open shard that is not encoded as a whole, by position. `key`: of its file.
  Result<std::vector<ShardEntry>> entries(const OpenArray& array, const std::string& key,
                                          const std::shared_ptr<const StoredFile>& file);
  /// Calls visit() for each stored chunk in an open shard, also outside of the array: with its position in the index of
  /// each level, and its coordinates. `shard`: those of the shard.
  using VisitChunk = std::function<void(const std::vector<uint64_t>& positions, std::span<const uint64_t> coordinates)>;
  Result<> visit(const OpenArray& array, const std::string& key, const std::shared_ptr<const StoredFile>& file,
                 std::span<const uint64_t> shard, const VisitChunk& visit);
  /// The numbers of all stored chunks in one shard, in no particular order; appended to `numbers`. Chunks outside of
  /// the array are left out.
  Result<> list(const OpenArray& array, uint64_t shard, std::vector<uint64_t>& numbers);

 private:
  class Range;
  struct Index;
  using IndexPtr = std::shared_ptr<const Index>;

  void expect_in(const OpenArray& array, uint64_t shard, std::span<const uint64_t> numbers);
  Result<IndexPtr> index_of(const OpenArray& array, size_t level, const Range& range, const std::string& version);
  Result<std::optional<Range>> find(const OpenArray& array, uint64_t number);
  Result<std::optional<Range>> find_in(const OpenArray& array, uint64_t number, std::shared_ptr<const StoredFile> file);
  Result<> visit_below(const OpenArray& array, std::vector<uint64_t>& positions, const Range& range,
                       const std::string& version, std::span<const uint64_t> place, const VisitChunk& visit);

  const Store& files_;
  LruMap<std::string, Index> indexes_{4096, uint64_t{64} << 20};
};

/// The position of a chunk in the index of each level.
std::vector<uint64_t> positions_of(const Array& array, uint64_t number);
/// The number of the shard that holds a chunk, and the key of its file.
uint64_t shard_of(const Array& array, uint64_t number);
std::string shard_key(const OpenArray& array, uint64_t shard);

}  // namespace codecfs::zarr
