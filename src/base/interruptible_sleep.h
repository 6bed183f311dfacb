#pragma once
// A sleep that a stop request ends.

#include <chrono>
#include <stop_token>

namespace codecfs {

/// Sleeps for `time`, or until a stop is requested. Returns whether no stop is requested.
bool sleep_unless_stopped(const std::stop_token& stop, std::chrono::nanoseconds time);

}  // namespace codecfs
