#pragma once
// The right to call libhdf5. The library has one global lock of its own where it is built for threads at all; ours is
// around it for the sake of those builds that have none, and because two calls are often one step (locate a chunk).
//
// Whoever calls libhdf5 holds a LibraryLock. It may be taken again by the thread that has it. Nothing slow happens
// under it but what libhdf5 does itself: chunks are fetched and decoded without it.

#include <fmt/format.h>

#include <mutex>
#include <string>

#include "base/result.h"

namespace codecfs::hdf5 {

class LibraryLock {
 public:
  /// Also sees to it, once a thread, that libhdf5 does not print its error stacks.
  LibraryLock();

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

/// What failed in the latest call of this thread: the innermost function, and what it said.
struct LibraryFailure {
  std::string function;  // empty where nothing failed
  std::string reason;
};
/// Ask before the next call, and once: the error stack is emptied.
LibraryFailure latest_failure();

/// Whether one of the failures that latest_failure() told was for want of memory.
bool library_ran_out_of_memory();

/// An error for a failed call of libhdf5: what we tried, then what the library said.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_library(int code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(
      Error{code, fmt::format("{}: {}", fmt::format(format, std::forward<Args>(args)...), latest_failure().reason)});
}

}  // namespace codecfs::hdf5
