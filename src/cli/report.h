#pragma once
// How commands end.

#include "base/result.h"

namespace codecfs::cli {

// Exit codes of mount(8).
inline constexpr int kUsage = 1;
inline constexpr int kFailed = 32;

/// Prints an error as one line on stderr. Returns `code`.
int report(const Error& error, int code);

}  // namespace codecfs::cli
