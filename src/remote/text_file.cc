#include "remote/text_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "base/unique_fd.h"

namespace codecfs::remote {

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return fail_errno(errno, "cannot open '{}'", path);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return fail_errno(errno, "cannot read '{}'", path);
  // Users switch a file off with /dev/null.
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) return fail(EINVAL, "'{}' is not a regular file", path);
  std::string text;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "cannot read '{}'", path);
    if (count == 0) return text;
    text.append(block.data(), static_cast<size_t>(count));
    if (text.size() > max_bytes) return fail(EFBIG, "'{}' is longer than {} bytes", path, max_bytes);
  }
}

std::string home_directory() {
  if (const char* home = std::getenv("HOME"); home && *home) return home;
  std::vector<char> memory(size_t{64} << 10);
  struct passwd entry;
  struct passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, memory.data(), memory.size(), &found) != 0 || !found) return {};
  return found->pw_dir;
}

std::string expand_home(const std::string& path) {
  return path.starts_with("~/") ? home_directory() + path.substr(1) : path;
}

}  // namespace codecfs::remote
