#pragma once
// Which chunks of an array are stored. A directory can only be read as a whole and in no order, so a listing is one
// pass that is kept while someone goes through it: eight bytes a chunk, for the arrays listed most recently.

#include <cstdint>
#include <ctime>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/zarr/store/store.h"
#include "base/result.h"
#include "model/chunk_grid.h"

namespace codecfs::zarr {

/// All stored chunks, ascending. Names that are no chunk's are skipped, and what is no
/// regular file (it is named in the log once). Empty where there is no directory.
Result<std::vector<uint64_t>> list_chunks(const Store& store, const std::string& array, const ChunkGrid& grid,
                                          char separator);

class ChunkListings {
 public:
  static constexpr size_t kKept = 4;  // arrays, so that a few readers at a time do not undo each other's passes

  /// At most `limit` numbers of stored chunks from `from` on. From 0 the pass is made anew, unless the directory shows
  /// that nothing has changed.
  Result<std::vector<uint64_t>> next(const Store& store, const std::string& array, const ChunkGrid& grid,
                                     char separator, uint64_t from, size_t limit);

  /// Takes note of a chunk that was stored or removed; to be called after each such change. What is kept then shows the
  /// directory as it is, whatever order changes of several threads come in.
  void refresh(const Store& store, const std::string& array, const std::string& chunk_key, uint64_t number);
  /// What is at a key and below it is another thing now, or gone.
  void forget(const std::string& key);

 private:
  struct Listing {
    std::string array;
    struct timespec changed;  // of the array's directory
    std::vector<uint64_t> numbers;
    bool was_finished = false;  // its end was given: kept only until another array is listed
  };

  std::mutex mutex_;             // held during a pass: two readers of one array share it
  std::list<Listing> listings_;  // most recently used first; guarded by mutex_
};

}  // namespace codecfs::zarr
