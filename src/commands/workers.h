#pragma once
// Work of a command that all cores share.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs::commands {

/// Set by SIGINT, SIGTERM and SIGHUP once catch_signals() was called: long work ends with ECANCELED and cleans up.
extern std::atomic<bool> interrupted;
void catch_signals();

/// Calls `work` with 0 to `count` - 1, each number once, in as many threads as there are cores, and in at least
/// `threads`; in fewer if no more can be created. After an error, or once `interrupted` is set (ECANCELED), no further
/// calls begin. Returns the first error.
Result<> in_parallel(uint64_t count, const std::function<Result<>(uint64_t number)>& work, size_t threads = 0);

/// As in_parallel(), for reads of these chunks in this order; `read` gets an index in `chunks`. A source that waits for
/// a network learns what is next, and gets as many reads at a time as it wants.
struct ChunkToRead {
  ObjectId variable = 0;
  uint64_t number = 0;
};
Result<> read_in_parallel(Source& source, std::span<const ChunkToRead> chunks,
                          const std::function<Result<>(uint64_t index)>& read);

}  // namespace codecfs::commands
