#pragma once
// Work of a command that all cores share.

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace codecfs::commands {

/// Set by SIGINT, SIGTERM and SIGHUP once catch_signals() was called: long work ends with ECANCELED and cleans up.
extern std::atomic<bool> interrupted;
void catch_signals();

/// Calls `work` with 0 to `count` - 1, each number once, in as many threads as there are cores. After an error, or once
/// `interrupted` is set (ECANCELED), no further calls begin. Returns the first error.
Result<> in_parallel(uint64_t count, const std::function<Result<>(uint64_t number)>& work);

}  // namespace codecfs::commands
