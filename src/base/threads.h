#pragma once
// Threads, whose number is limited: that one cannot be created is an error like any other.

#include <cstddef>
#include <functional>
#include <thread>

#include "base/result.h"

namespace codecfs {

/// EAGAIN with the limits that may have been reached, or ENOMEM. An exception that leaves `run` ends the thread alone,
/// and is logged: functions that must go on catch it themselves.
Result<std::jthread> start_thread(std::function<void(const std::stop_token&)> run);

/// Threads that can run at a time, at least 1.
size_t core_count();

}  // namespace codecfs
