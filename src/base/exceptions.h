#pragma once
// Exceptions as errors, for functions that none may leave: other threads wait until something that has begun is over,
// or no caller is above that would catch it.
//
//   Result<Buffer> decoded = without_exceptions([&] { return decode(); });

#include <string>

#include "base/result.h"

namespace codecfs {

/// The error of the exception that is being handled: of std::bad_alloc ENOMEM with this reason, of others EIO with
/// their text.
Error error_of_exception(const std::string& memory_reason = "out of memory") noexcept;

/// The result of the function.
template <class Function>
auto without_exceptions(const Function& function) noexcept -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return std::unexpected(error_of_exception());
  }
}

}  // namespace codecfs
