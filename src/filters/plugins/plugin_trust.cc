#include "filters/plugins/plugin_trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace codecfs::filters {
namespace {

/// Describes which other users can change a file with this status; empty if none can.
std::string other_writers(const struct stat& status, bool sticky_will_do) {
  if (status.st_uid != 0 && status.st_uid != geteuid()) return fmt::format("belongs to user {}", status.st_uid);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  if (sticky_will_do && S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0) return {};
  return fmt::format("can be written to by {} (mode {:04o})",
                     (status.st_mode & S_IWOTH) != 0 ? "all users" : fmt::format("group {}", status.st_gid),
                     status.st_mode & 07777);
}

}  // namespace

Result<std::string> trusted_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "{}", path);
  const std::string whole(real.get());
  struct stat last{};
  if (lstat(whole.c_str(), &last) != 0) return fail_errno(errno, "{}", path);
  // Other users must not be able to create files in the directory that contains plugins.
  const size_t holder = S_ISDIR(last.st_mode) ? whole.size() : std::max<size_t>(whole.rfind('/'), 1);
  for (size_t end = 1; end <= whole.size();) {
    const std::string part = whole.substr(0, end);
    struct stat status{};
    // lstat, not stat: the path had no links when it was resolved.
    if (lstat(part.c_str(), &status) != 0) return fail_errno(errno, "{}", part);
    const std::string wrong = S_ISLNK(status.st_mode) ? "became a link just now" : other_writers(status, end < holder);
    if (!wrong.empty())
      return fail(EPERM, "{} {}; plugins are loaded from where only root and user {} can write", part, wrong,
                  geteuid());
    if (end == whole.size()) break;
    end = std::min(whole.find('/', end + 1), whole.size());
  }
  return whole;
}

}  // namespace codecfs::filters
