#pragma once
// Loops that several threads share.
//
//   CODECFS_TRY(parallel_for(chunks.size(), {.call_bytes = 4 * chunk_bytes},
//                            [&](uint64_t i) { return encode(chunks[i]); }));
//
// A loop calls its `work` with each number once, in any order, in the calling thread and in others, and returns when
// all calls have returned. What goes wrong has the same answer in all loops:
//
// - After an error no further call begins. The loop returns the error that occurred first, not that of the lowest
//   number.
// - An exception is an error: std::bad_alloc is ENOMEM, others are EIO with their text. None leaves the loop.
// - If no more threads can be created, or there is no memory for them, fewer take part, down to the calling thread
// alone.
// - Once `cancelled` returns true, no further call begins, and the error is ECANCELED.
//
// The other threads work for the calling one: its Interruption is theirs, and so is its step (base/worker_process.h),
// but not its Helpers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/helpers.h"
#include "base/result.h"

namespace codecfs {

/// The calls of a loop that states what one of them takes (ParallelOptions::call_bytes) take about so much memory
/// together, bytes.
inline constexpr uint64_t kParallelMemory = uint64_t{1} << 30;

struct ParallelOptions {
  /// Most threads, with the calling one. 0: as many as there are cores, or, with `helpers`, as come.
  size_t threads = 0;
  /// Memory of one call; 0: little. There are fewer threads if they would take more than kParallelMemory.
  uint64_t call_bytes = 0;
  /// Asked before each call, by any of the threads. Empty: never.
  std::function<bool()> cancelled = nullptr;
  /// What the loop's own errors say.
  std::string cancelled_reason = "interrupted";  // ECANCELED
  std::string memory_reason = "out of memory";   // ENOMEM
  /// Threads that take part instead of new ones.
  Helpers* helpers = nullptr;
};

/// Calls `work` with all numbers below `count`. One thread alone takes them in ascending order.
Result<> parallel_for(uint64_t count, const ParallelOptions& options, const std::function<Result<>(uint64_t)>& work);

/// Calls `work` with the numbers that `next` returns. After `next` has returned none, has failed, which is an error of
/// the loop, or has thrown, it is not called again. One thread at a time calls `cancelled` and `next`.
Result<> parallel_for_each(const std::function<Result<std::optional<uint64_t>>()>& next, const ParallelOptions& options,
                           const std::function<Result<>(uint64_t)>& work);

}  // namespace codecfs
