#pragma once
// Small files that belong to the user: settings and tokens. Thread-safe.

#include <cstddef>
#include <string>

#include "base/result.h"

namespace codecfs::remote {

/// The content of a file. The errors of open(2) and read(2); EFBIG if it is longer than `max_bytes`; EINVAL if it is a
/// directory, a pipe or a socket. Never waits for another program.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

/// The home directory: HOME, else that of the user database. Empty if there is none.
std::string home_directory();

/// "~/x" in the home directory; other paths as they are.
std::string expand_home(const std::string& path);

}  // namespace codecfs::remote
