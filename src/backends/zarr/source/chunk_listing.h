#pragma once
// Lists the stored chunks of an array. A directory can only be read completely and in no order, so one scan is cached
// while readers page through it: eight bytes per chunk, for the most recently listed arrays. It is given back when it
// was not used for some seconds.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/zarr/store/shared_store.h"
#include "backends/zarr/store/store.h"
#include "base/mutex.h"
#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/chunk_keys.h"

namespace codecfs::zarr {

/// All stored chunks, ascending. Ignores other names, and logs once if a chunk's name is not a regular file. Empty if
/// there is no directory.
Result<std::vector<uint64_t>> list_chunks(const Store& store, const std::string& array, const ChunkGrid& grid,
                                          const ChunkKeys& keys);

/// The stored chunks that are not in the first `kept` cells of each dimension, ascending; errors and names as in
/// list_chunks(). A few are looked up one by one, so that this does not cost time in proportion to those in the array.
/// `shared`: of the store, if other programs may write it; then what it has now is returned.
Result<std::vector<uint64_t>> list_chunks_outside(const Store& store, SharedStore* shared, const std::string& array,
                                                  const ChunkGrid& grid, std::span<const uint64_t> kept,
                                                  const ChunkKeys& keys);

class ChunkListings {
 public:
  static constexpr size_t kKept = 4;  // arrays, so that a few concurrent readers do not evict each other's scans

  /// Lists all stored chunks of an array, ascending.
  using Scan = std::function<Result<std::vector<uint64_t>>()>;
  /// At most `limit` numbers of stored chunks from `from` on. From 0 scans again, unless `array` is a directory with
  /// the names of the chunks (`is_flat`) and has not changed.
  Result<std::vector<uint64_t>> next(const Store& store, const std::string& array, bool is_flat, const Scan& scan,
                                     uint64_t from, size_t limit);

  /// Must be called after each chunk that was stored or removed. Calls `is_stored` to check the file itself, so that
  /// the cached listing is right even if several threads call this in another order.
  void refresh(const std::string& array, uint64_t number, const std::function<Result<bool>()>& is_stored);
  /// Must be called when the objects at a key and below it were replaced or removed.
  void forget(const std::string& key);
  /// Gives back what was not used for so long.
  void drop_unused(std::chrono::seconds unused_for);
  /// The number of chunks that are kept.
  [[nodiscard]] size_t kept_chunks();

 private:
  struct Listing {
    std::string array;
    struct timespec changed;  // mtime of the array's directory
    std::vector<uint64_t> numbers;
    bool was_finished = false;  // completely returned: kept only until another array is listed
    std::chrono::steady_clock::time_point used;
  };

  Mutex mutex_{LockRank::chunk_listings};  // held during a scan, which concurrent readers of an array share
  std::list<Listing> listings_ CODECFS_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace codecfs::zarr
