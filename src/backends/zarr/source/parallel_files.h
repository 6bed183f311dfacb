#pragma once
// Makes files in several threads.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace codecfs::zarr {

/// The decoded size in bytes that is assumed of a chunk if its size depends on its data.
inline constexpr uint64_t kObjectBytes = uint64_t{64} << 20;
/// All threads together take about so much memory, bytes.
inline constexpr uint64_t kParallelMemory = uint64_t{1} << 30;

/// Calls `make` with 0 to count - 1, in any order, in several threads and in the caller's. Fewer threads work if a call
/// takes more than a share of kParallelMemory (`memory`, bytes). Returns the first error, after which no call begins.
/// ENOMEM if it throws std::bad_alloc.
Result<> make_in_parallel(size_t count, uint64_t memory, const std::function<Result<>(size_t)>& make);
/// The same in at most `threads` threads, for work that waits for a network.
Result<> make_at_once(size_t count, size_t threads, const std::function<Result<>(size_t)>& make);

}  // namespace codecfs::zarr
