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

/// Cores that can be used now, at least 1: those of the system or, as some C libraries count, those that this thread
/// may use. Asks the system at each call.
size_t core_count();

}  // namespace codecfs
