#include "base/result.h"

#include <cstring>

namespace codecfs {

std::unexpected<Error> make_failure(int code, fmt::string_view format, fmt::format_args arguments) {
  return std::unexpected(Error{code, fmt::vformat(format, arguments)});
}

std::unexpected<Error> make_system_failure(int code, fmt::string_view format, fmt::format_args arguments) {
  return std::unexpected(Error{code, fmt::format("{}: {}", fmt::vformat(format, arguments), std::strerror(code))});
}

}  // namespace codecfs
