#include "base/exceptions.h"

#include <exception>
#include <new>

namespace codecfs {

Error error_of_exception(const std::string& memory_reason) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return {ENOMEM, memory_reason};
    } catch (const std::exception& exception) {
      return {EIO, fmt::format("internal error: {}", exception.what())};
    } catch (...) {
      return {EIO, "internal error"};
    }
  } catch (...) {
    return {ENOMEM, "out of memory"};  // short enough to need no memory
  }
}

}  // namespace codecfs
