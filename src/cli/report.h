#pragma once
// How commands end.

#include <string_view>

#include "base/result.h"

namespace codecfs::cli {

// Exit codes of mount(8).
inline constexpr int kUsage = 1;
inline constexpr int kFailed = 32;
// Exit codes of commands that look for something: they worked, and
inline constexpr int kFound = 2;       // found damage or differences
inline constexpr int kIncomplete = 3;  // found none, but could not look everywhere

/// Prints what a command has found on stdout. Returns `code`, or kFailed with an error on stderr if stdout cannot be
/// written.
int print(std::string_view text, int code = 0);
/// Prints that `what` in an HDF5 file needs these plugins, which filters::plugins_needed() names.
int print_plugins(std::string_view what, std::string_view plugins);
/// Prints an error as one line on stderr. Returns `code`.
int report(const Error& error, int code);

}  // namespace codecfs::cli
