#pragma once
// Work that waits for requests, in many threads.

#include <cstddef>
#include <functional>

namespace codecfs::remote {

/// Calls `work` with 0 to count - 1, each number once, in this thread and at most `at_once` - 1 others, and returns
/// when all have returned. `work` must not throw. An Interruption of this thread is also one of the others.
void run_in_parallel(size_t count, size_t at_once, const std::function<void(size_t number)>& work);

}  // namespace codecfs::remote
