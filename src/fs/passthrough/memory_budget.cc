#include "fs/passthrough/memory_budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/human.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// The number after a name, in a file of lines "name number"; none if it is not there.
std::optional<uint64_t> number_after(const std::string& file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t number = 0;
    if (words >> word && word == name && words >> number) return number;
  }
  return std::nullopt;
}

/// A file of one number. None if it has another text ("max").
std::optional<uint64_t> number_in(const std::string& file) {
  std::ifstream stream(file);
  uint64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

/// The names of the two versions' files.
struct Version {
  std::string_view type;  // of its filesystem
  std::string_view limit;
  std::string_view usage;
  std::string_view cache;   // in memory.stat: pages of files, with those of tmpfs
  std::string_view shared;  // those of tmpfs
};
constexpr Version kVersions[] = {
    {"cgroup2", "memory.max", "memory.current", "file", "shmem"},
    {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"}};

struct Cgroup {
  std::string mount;      // where its hierarchy is mounted
  std::string directory;  // at or below it
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(std::move(part));
  return parts;
}

/// Where the hierarchy of a version with the memory controller is mounted, "" if it is not.
std::string hierarchy_of(const Version& version, const std::string& root) {
  std::ifstream table(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    // 33 23 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words.end() - dash < 4 || *(dash + 1) != version.type) continue;
    const std::vector<std::string> options = split(*(dash + 3), ',');
    if (version.type == "cgroup" && std::ranges::find(options, "memory") == options.end()) continue;
    return root + words[4];
  }
  return "";
}

std::optional<Cgroup> cgroup_of(const Version& version, const std::string& root) {
  std::ifstream table(root + "/proc/self/cgroup");
  for (std::string line; std::getline(table, line);) {
    // 0::/user.slice or 4:memory:/user.slice
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
    const bool is_this =
        version.type == "cgroup2" ? controllers.empty() : std::ranges::find(controllers, "memory") != controllers.end();
    if (!is_this) continue;
    Cgroup cgroup{.mount = hierarchy_of(version, root), .directory = {}};
    if (cgroup.mount.empty()) return std::nullopt;
    cgroup.directory = cgroup.mount + line.substr(second + 1);
    while (cgroup.directory.ends_with('/')) cgroup.directory.pop_back();
    // In a container the path may be that of the host, of which only a part is mounted.
    struct stat status{};
    if (stat(cgroup.directory.c_str(), &status) != 0) cgroup.directory = cgroup.mount;
    return cgroup;
  }
  return std::nullopt;
}

/// What is left in a cgroup and those above it, bytes. Pages of files are reclaimed for others.
uint64_t headroom_of(const Version& version, const Cgroup& cgroup) {
  uint64_t least = kUnlimited;
  for (std::string directory = cgroup.directory;; directory.resize(directory.rfind('/'))) {
    const auto file = [&](std::string_view name) { return directory + "/" + std::string(name); };
    if (const auto limit = number_in(file(version.limit))) {
      const uint64_t usage = number_in(file(version.usage)).value_or(0);
      const uint64_t cache = number_after(file("memory.stat"), version.cache).value_or(0);
      const uint64_t shared = number_after(file("memory.stat"), version.shared).value_or(0);
      const uint64_t reclaimable = std::min(cache - std::min(shared, cache), usage);
      least = std::min(least, *limit - std::min(*limit, usage - reclaimable));
    }
    if (directory.size() <= cgroup.mount.size()) return least;
  }
}

uint64_t headroom_of_cgroups(const std::string& root) {
  uint64_t headroom = kUnlimited;
  for (const Version& version : kVersions)
    if (const auto cgroup = cgroup_of(version, root)) headroom = std::min(headroom, headroom_of(version, *cgroup));
  return headroom;
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  const auto available_kib = number_after(root + "/proc/meminfo", "MemAvailable:");
  return std::min(available_kib ? *available_kib << 10 : kUnlimited, headroom_of_cgroups(root));
}

Result<uint64_t> memory_budget(const std::string& root) {
  const std::optional<uint64_t> total_kib = number_after(root + "/proc/meminfo", "MemTotal:");
  if (!total_kib) return fail(ENOMEM, "the size of the memory is unknown: /proc/meminfo cannot be read");
  const uint64_t total = *total_kib << 10;
  const uint64_t headroom = headroom_of_cgroups(root);
  if (total / 4 < kLeastBudget) return fail(ENOMEM, "the machine has only {} of memory", human_bytes(total));
  if (headroom / 2 < kLeastBudget) return fail(ENOMEM, "the memory cgroup has only {} left", human_bytes(headroom));
  return std::max(std::min(total / 8, headroom / 4), kLeastBudget);
}

std::string cgroup_directory(const std::string& root) {
  const auto cgroup = cgroup_of(kVersions[0], root);
  return cgroup ? cgroup->directory : "";
}

}  // namespace codecfs::fs
