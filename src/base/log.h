#pragma once
// The log: to stderr in the foreground, to syslog in the background, or to a file. The latest messages are also kept in
// memory for `.codecfs/log`. Thread-safe.

#include <fmt/core.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::log {

enum class Level { debug, info, warning, error };

// No exception leaves the functions that log: a message for which there is no memory is lost.

void write(Level level, std::string_view message) noexcept;
void print(Level level, fmt::string_view format, fmt::format_args arguments) noexcept;
/// Selects where messages go from now on. Default: stderr.
void to_stderr();
void to_syslog();
/// Appends to a file, which is created if it does not exist, and prefixes each message with the time. The errors of
/// open(2).
Result<> to_file(const std::string& path);
/// Hands each message to a function, which may be called from any thread, one call at a time.
void to_function(std::function<void(Level, std::string_view)> function);
/// Messages below this level are dropped. Default: info.
void set_level(Level level);
/// Whether messages of this level are not dropped.
bool is_logged(Level level);
/// "debug", "info", "warning", "error".
std::optional<Level> level_named(std::string_view name);
/// The latest messages (at most kRecentMessages), oldest first, one per line.
std::string recent();
inline constexpr size_t kRecentMessages = 1000;

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  print(Level::debug, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  print(Level::info, format, fmt::make_format_args(args...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  print(Level::warning, format, fmt::make_format_args(args...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  print(Level::error, format, fmt::make_format_args(args...));
}

}  // namespace codecfs::log
