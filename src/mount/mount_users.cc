#include "mount/mount_users.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/directory_stream.h"
#include "base/mount_table.h"

namespace codecfs::mount {
namespace {

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const DirectoryStream directory(opendir(path.c_str()));
  while (directory) {
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

/// Paths of one mount. Links of /proc are compared as text: following them would ask the mount.
class Place {
 public:
  explicit Place(const std::string& mountpoint) : path_(mountpoint) {}

  [[nodiscard]] bool has(std::string_view path) const {
    return path.starts_with(path_) && (path.size() == path_.size() || path[path_.size()] == '/');
  }
  [[nodiscard]] bool has_target_of(const std::string& link) const {
    char target[PATH_MAX];
    const ssize_t size = readlink(link.c_str(), target, sizeof target);
    return size > 0 && has({target, static_cast<size_t>(size)});
  }

 private:
  const std::string& path_;
};

/// How a process uses the mount; empty if it does not.
std::string_view use_of(const std::string& process, const Place& place) {
  if (place.has_target_of(process + "/cwd")) return "its current directory";
  if (place.has_target_of(process + "/root")) return "its root directory";
  if (place.has_target_of(process + "/exe")) return "its program";
  const std::string files = process + "/fd";
  for (const std::string& file : names_in(files))
    if (place.has_target_of(fmt::format("{}/{}", files, file))) return "an open file";
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (const size_t at = line.find('/'); at != std::string::npos && place.has(std::string_view(line).substr(at)))
      return "a mapped file";
  return {};
}

/// Whether the mount namespace of a process has a mount of this device.
bool has_mount(const std::string& process, std::string_view device) {
  std::ifstream table(process + "/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id;
    std::string parent;
    std::string found;
    if (fields >> id >> parent >> found && found == device) return true;
  }
  return false;
}

/// The name of the program, without characters that would break the line of a message.
std::string command_of(const std::string& process) {
  std::ifstream file(process + "/comm");
  std::string name;
  std::getline(file, name);
  std::ranges::replace_if(name, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return name;
}

std::vector<std::string> other_processes() {
  std::vector<std::string> names = names_in("/proc");
  std::erase_if(names, [own = std::to_string(getpid())](const std::string& name) {
    return name.find_first_not_of("0123456789") != std::string::npos || name == own;
  });
  return names;
}

}  // namespace

std::string processes_using(const std::string& mountpoint, size_t most) {
  const Place place(mountpoint);
  std::string text;
  size_t count = 0;
  for (const std::string& name : other_processes()) {
    const std::string process = "/proc/" + name;
    const std::string_view use = use_of(process, place);
    if (use.empty()) continue;
    if (++count > most) return text + " and more";
    text += fmt::format("{}{} ({}: {})", text.empty() ? "" : ", ", name, command_of(process), use);
  }
  return text;
}

std::string other_mounts_of(const std::string& device) {
  for (const MountEntry& entry : mount_table())
    if (entry.device == device) return "at " + entry.path;
  constexpr size_t kMaxNamed = 5;
  std::string text;
  size_t count = 0;
  for (const std::string& name : other_processes()) {
    const std::string process = "/proc/" + name;
    if (!has_mount(process, device)) continue;
    if (++count > kMaxNamed) return text + " and more";
    text += fmt::format("{}{} ({})", text.empty() ? "in the mount namespace of " : ", ", name, command_of(process));
  }
  return text;
}

}  // namespace codecfs::mount
