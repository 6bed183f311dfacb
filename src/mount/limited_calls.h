#pragma once
// Calls that may never return, as those into a mount whose daemon does not answer.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace codecfs::mount {

/// Runs each call in a child process, all at once, and returns their texts in the same order. ETIMEDOUT for those that
/// have not returned after `limit`; EIO for those whose process ended by itself; the errno of fork and pipe.
/// A child that waits uninterruptibly in the kernel stays behind until its wait ends. It has no descriptor of this
/// process, so that it keeps no pipe open. Only for a process that has one thread, as the calls may do anything.
std::vector<Result<std::string>> call_with_limit(const std::vector<std::function<std::string()>>& calls,
                                                 std::chrono::milliseconds limit);

}  // namespace codecfs::mount
