#pragma once
// Errors as values.
//
//   Result<Buffer> read_all(int fd);            // a value, or an Error with errno and reason
//   Result<> flush();                           // nothing, or an Error
//
//   Result<size_t> size_of(const std::string& path) {
//     CODECFS_ASSIGN(const UniqueFd fd, open_file(path));     // returns the error of open_file
//     if (empty) return fail(ENODATA, "{}: is empty", path);
//     ...
//   }
//
// Users read an Error: `code` becomes the errno of the system call, `reason` is shown in user._Error and in the log. A
// reason says what happened, to what, and (if known) what to do.

#include <fmt/core.h>

#include <cerrno>
#include <expected>
#include <string>
#include <utility>

namespace codecfs {

struct Error {
  int code = EIO;      // an errno value, never 0
  std::string reason;  // one line without a full stop
};

template <class T = void>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

/// Formats the reason. Shared by fail() and fail_errno() to keep their instantiations small.
[[nodiscard]] std::unexpected<Error> make_failure(int code, fmt::string_view format, fmt::format_args arguments);
[[nodiscard]] std::unexpected<Error> make_system_failure(int code, fmt::string_view format, fmt::format_args arguments);

/// An error to return from any function that returns a Result.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(int code, fmt::format_string<Args...> format, Args&&... args) {
  return make_failure(code, format, fmt::make_format_args(args...));
}

/// As fail(), for a failed system call: appends the text of `code` (an errno value).
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_errno(int code, fmt::format_string<Args...> format, Args&&... args) {
  return make_system_failure(code, format, fmt::make_format_args(args...));
}

/// Passes an error on to the caller.
template <class T>
[[nodiscard]] std::unexpected<Error> pass_on(Result<T>& result) {
  return std::unexpected(std::move(result.error()));
}

#define CODECFS_JOIN_(a, b) a##b
#define CODECFS_JOIN(a, b) CODECFS_JOIN_(a, b)

/// Evaluates an expression that yields a Result; returns its error from the enclosing function if there is one.
#define CODECFS_TRY(expression)                                                       \
  do {                                                                                \
    auto codecfs_result_ = (expression);                                              \
    if (!codecfs_result_) return std::unexpected(std::move(codecfs_result_.error())); \
  } while (false)

/// Declares a variable with the value of a Result; returns the error from the enclosing function if there is one.
#define CODECFS_ASSIGN(declaration, expression) \
  CODECFS_ASSIGN_(CODECFS_JOIN(codecfs_result_, __LINE__), declaration, expression)
#define CODECFS_ASSIGN_(result, declaration, expression)          \
  auto result = (expression);                                     \
  if (!result) return std::unexpected(std::move(result.error())); \
  declaration = std::move(*result)

}  // namespace codecfs
