#pragma once
// The lock for all calls of libhdf5. A thread-safe build of the library has a global lock of its own; this one serves
// builds without it, and makes several calls one atomic step (for example to locate a chunk).
//
// Every call of libhdf5 requires a LibraryLock. It is recursive. Hold it only for libhdf5's own work: chunks are read
// and decoded without it.

#include <fmt/format.h>

#include <string>

#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class LibraryLock {
 public:
  /// Takes the lock, and disables libhdf5's printing of error stacks, once per thread.
  LibraryLock();

 private:
  LockGuard<RecursiveMutex> guard_;
};

/// The innermost function that failed in this thread's latest call, and its message.
struct LibraryFailure {
  std::string function;  // empty if nothing failed
  std::string reason;
};
/// Must be called before the next call of libhdf5, and only once: it clears the error stack.
LibraryFailure latest_failure();

/// Whether a failure that latest_failure() has returned was an allocation failure.
bool library_ran_out_of_memory();

/// The error for a failed call of libhdf5: our description, then the library's message.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_library(int code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(
      Error{code, fmt::format("{}: {}", fmt::format(format, std::forward<Args>(args)...), latest_failure().reason)});
}

/// In a forked process: replaces the lock, which a thread that does not exist here may have held.
void reset_library_lock();

}  // namespace codecfs::hdf5
