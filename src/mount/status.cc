#include "mount/status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "base/closest_name.h"
#include "base/directory_stream.h"
#include "base/human.h"
#include "base/mount_table.h"
#include "base/terminal_text.h"
#include "base/unique_fd.h"
#include "model/json.h"
#include "mount/limited_calls.h"
#include "mount/mount_path.h"
#include "mount/progress_line.h"

namespace codecfs::mount {
namespace {

constexpr std::chrono::seconds kLimit{5};  // for the answers of all mounts

/// An extended attribute; none if there is none. `code`: set to the errno of another error.
std::optional<std::string> attribute(const std::string& path, const char* name, int& code) {
  std::string value(size_t{64} << 10, '\0');
  const ssize_t size = getxattr(path.c_str(), name, value.data(), value.size());
  if (size < 0) {
    if (errno != ENODATA) code = errno;
    return std::nullopt;
  }
  value.resize(static_cast<size_t>(size));
  return value;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

void read_counters(MountStatus& status) {
  std::ifstream file(status.path + "/.codecfs/stats");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) status.counters.emplace_back(name, value);
}

void read_errors(MountStatus& status) {
  constexpr size_t kMax = 5;
  std::ifstream file(status.path + "/.codecfs/log");
  for (std::string line; std::getline(file, line);) {
    if (line.find(" warning: ") == line.npos && line.find(" error: ") == line.npos) continue;
    status.errors.push_back(std::move(line));
    if (status.errors.size() > kMax) status.errors.erase(status.errors.begin());
  }
}

MountStatus described(const MountEntry& entry) {
  MountStatus status;
  status.path = entry.path;
  status.source = entry.source;
  status.read_only = ("," + entry.options + ",").find(",ro,") != std::string::npos;
  return status;
}

/// Asks the mount, which may never return.
void ask(MountStatus& status) {
  int code = 0;
  const std::optional<std::string> work = attribute(status.path, "user._Progress", code);
  if (code != 0) {
    status.unreachable = code == ENOTCONN ? "its daemon is dead" : std::strerror(code);
    return;
  }
  if (work) status.work = lines_of(*work);
  read_counters(status);
  read_errors(status);
}

/// What ask() has found, as bytes for another process.
std::string packed(const MountStatus& status) {
  Json counters = Json::array();
  for (const auto& [name, value] : status.counters) counters.push_back({name, value});
  return print_json({{"unreachable", status.unreachable},
                     {"counters", std::move(counters)},
                     {"work", status.work},
                     {"errors", status.errors}});
}

void unpack(const std::string& bytes, MountStatus& status) {
  const Result<Json> json = parse_json(bytes);
  if (!json) {
    status.unreachable = json.error().reason;
    return;
  }
  status.unreachable = member(*json, "unreachable");
  for (const Json& counter : member(*json, "counters")) status.counters.emplace_back(counter[0], counter[1]);
  status.work = member(*json, "work").get<std::vector<std::string>>();
  status.errors = member(*json, "errors").get<std::vector<std::string>>();
}

/// Asks all mounts at once.
void ask_all(std::vector<MountStatus>& mounts) {
  std::vector<std::function<std::string()>> calls;
  for (const MountStatus& mount : mounts) {
    calls.emplace_back([mount = MountStatus(mount)]() mutable {
      ask(mount);
      return packed(mount);
    });
  }
  const std::vector<Result<std::string>> answers = call_with_limit(calls, kLimit);
  for (size_t i = 0; i < mounts.size(); ++i) {
    if (answers[i])
      unpack(*answers[i], mounts[i]);
    else
      mounts[i].unreachable = "its daemon does not answer: " + answers[i].error().reason;
  }
}

/// path_of_mount() for a path that may be inside a mount that does not answer.
Result<std::string> path_within_limit(const std::string& path) {
  const auto call = [path] {
    const Result<std::string> place = path_of_mount(path);
    return place ? "+" + *place : fmt::format("-{}", place.error().reason);
  };
  CODECFS_ASSIGN(const std::string answer, std::move(call_with_limit({call}, kLimit).front()));
  if (!answer.starts_with('+')) return fail(EINVAL, "{}", answer.substr(1));
  return answer.substr(1);
}

/// A label's value.
std::string quoted(const std::string& text) {
  std::string value;
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return "\"" + value + "\"";
}

/// The mount point of the filesystem with this number; empty if it is none of codecfs.
std::string mount_point_of(dev_t number) {
  const std::string device = fmt::format("{}:{}", major(number), minor(number));
  for (const MountEntry& entry : mount_table())
    if (entry.type == "fuse.codecfs" && entry.device == device) return entry.path;
  return {};
}

/// For a path that does not exist: the variable or group beside it that it may stand for, as did_you_mean().
std::string hint_for(std::string path) {
  constexpr size_t kMaxNames = 10'000;  // a directory of chunks may have millions
  while (path.ends_with('/')) path.pop_back();
  const size_t slash = path.rfind('/');
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash + 1);
  struct stat status{};
  if (stat(parent.c_str(), &status) != 0 || mount_point_of(status.st_dev).empty()) return {};
  const DirectoryStream directory(opendir(parent.c_str()));
  std::vector<std::string> names;
  while (const dirent* const entry = directory && names.size() < kMaxNames ? readdir(directory.get()) : nullptr)
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return did_you_mean(std::string_view(path).substr(slash + 1),
                      std::vector<std::string_view>(names.begin(), names.end()));
}

/// The mount point above a path. EINVAL for what is not in a mount of codecfs.
Result<std::string> mount_above(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    auto failure = fail_errno(errno, "{}", path);
    if (failure.error().code == ENOENT) failure.error().reason += hint_for(path);
    return failure;
  }
  if (std::string point = mount_point_of(status.st_dev); !point.empty()) return point;
  return fail(EINVAL, "{}: is not in a mount of codecfs", path);
}

}  // namespace

uint64_t MountStatus::counter(const std::string& name) const {
  for (const auto& [known, value] : counters)
    if (known == name) return value;
  return 0;
}

Result<std::vector<MountStatus>> status_of_mounts(const std::optional<std::string>& path) {
  std::string wanted;
  if (path) {
    CODECFS_ASSIGN(wanted, path_within_limit(*path));
  }
  std::vector<MountStatus> mounts;
  std::set<std::string> seen;
  const std::vector<MountEntry> table = mount_table();
  for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {
    // Only the top mount of a place can be asked.
    if (!seen.insert(entry->path).second || entry->type != "fuse.codecfs" || (path && entry->path != wanted)) continue;
    mounts.insert(mounts.begin(), described(*entry));
  }
  if (path && mounts.empty()) return fail(EINVAL, "{}: no codecfs mount at this path", *path);
  ask_all(mounts);
  return mounts;
}

std::string status_text(const std::vector<MountStatus>& mounts) {
  std::string text;
  for (const MountStatus& mount : mounts) {
    text += fmt::format("{}  {}{}\n", printable(mount.path), printable(mount.source),
                        mount.read_only ? "  (read-only)" : "");
    if (!mount.unreachable.empty()) {
      text += fmt::format("  {}\n", mount.unreachable);
      continue;
    }
    const auto bytes = [&](const char* name) { return human_bytes(mount.counter(name)); };
    text += fmt::format("  read      {}\n", bytes("bytes_read"));
    if (!mount.read_only) text += fmt::format("  waiting   {} to be stored\n", bytes("dirty_bytes"));
    text += fmt::format("  cache     {}, {} hits, {} chunks decoded\n", bytes("cache_bytes"),
                        human_count(mount.counter("cache_hits")), human_count(mount.counter("chunks_decoded")));
    if (const uint64_t gets = mount.counter("object_gets"); gets > 0 || mount.counter("object_lists") > 0)
      text += fmt::format("  store     {} requests, {} received, {} repeated, {} failed\n",
                          human_count(mount.counter("object_time_count")), bytes("object_bytes_received"),
                          human_count(mount.counter("object_retries")), human_count(mount.counter("object_failures")));
    if (mount.counter("reclaimable_bytes") > 0)
      text += fmt::format("  unused    {} in the source (codecfs compact)\n", bytes("reclaimable_bytes"));
    for (const std::string& work : mount.work) text += fmt::format("  working   {}\n", printable(work));
    for (const std::string& error : mount.errors) text += fmt::format("  log       {}\n", printable(error));
  }
  return text.empty() ? "no mounts\n" : text;
}

Json status_json(const std::vector<MountStatus>& mounts) {
  Json list = Json::array();
  for (const MountStatus& mount : mounts) {
    Json json = {{"mountpoint", mount.path}, {"source", mount.source}, {"read_only", mount.read_only}};
    if (!mount.unreachable.empty()) json["unreachable"] = mount.unreachable;
    json["counters"] = Json::object();
    for (const auto& [name, value] : mount.counters) json["counters"][name] = value;
    json["work"] = mount.work;
    json["errors"] = mount.errors;
    list.push_back(std::move(json));
  }
  return list;
}

namespace {

/// The upper bound of a bucket of the histogram of requests, in seconds; none if the counter is none.
std::optional<std::string> bound_of(std::string_view counter) {
  constexpr std::string_view kPrefix = "object_time_le_";
  unsigned milliseconds = 0;
  if (!counter.starts_with(kPrefix)) return std::nullopt;
  counter.remove_prefix(kPrefix.size());
  std::from_chars(counter.data(), counter.data() + counter.size(), milliseconds);
  return fmt::format("{}", milliseconds / 1000.0);
}

/// The counters of the times of requests as Prometheus has histograms.
std::string request_times(const std::vector<MountStatus>& mounts) {
  constexpr const char* kName = "codecfs_object_time_seconds";
  std::string text = fmt::format("# TYPE {} histogram\n", kName);
  for (const MountStatus& mount : mounts) {
    const auto count = std::ranges::find(mount.counters, "object_time_count", &std::pair<std::string, uint64_t>::first);
    if (count == mount.counters.end()) continue;
    const std::string labels = fmt::format("mountpoint={},source={}", quoted(mount.path), quoted(mount.source));
    for (const auto& [name, value] : mount.counters)
      if (const auto bound = bound_of(name))
        text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", kName, labels, *bound, value);
    text += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", kName, labels, count->second);
    text += fmt::format("{}_sum{{{}}} {}\n", kName, labels,
                        static_cast<double>(mount.counter("object_time_sum_ms")) / 1000);
    text += fmt::format("{}_count{{{}}} {}\n", kName, labels, count->second);
  }
  return text;
}

}  // namespace

std::string status_prometheus(const std::vector<MountStatus>& mounts) {
  std::string text = "# HELP codecfs_up Whether the mount answers.\n# TYPE codecfs_up gauge\n";
  const auto labels = [](const MountStatus& mount) {
    return fmt::format("{{mountpoint={},source={}}}", quoted(mount.path), quoted(mount.source));
  };
  std::vector<std::string> names;
  for (const MountStatus& mount : mounts) {
    text += fmt::format("codecfs_up{} {}\n", labels(mount), mount.unreachable.empty() ? 1 : 0);
    for (const auto& [name, value] : mount.counters)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  bool has_times = false;
  for (const std::string& name : names) {
    if (name.starts_with("object_time_")) {
      if (!std::exchange(has_times, true)) text += request_times(mounts);
      continue;
    }
    text += fmt::format("# TYPE codecfs_{} untyped\n", name);
    for (const MountStatus& mount : mounts)
      if (mount.unreachable.empty()) text += fmt::format("codecfs_{}{} {}\n", name, labels(mount), mount.counter(name));
  }
  return text;
}

Result<FiltersSet> set_filters(const std::string& path, const std::string& spec) {
  constexpr const char* kFilter = "user._Filter";
  CODECFS_ASSIGN(const std::string mountpoint, mount_above(path));
  {
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // Not by its name, which the kernel may not look up meanwhile.
    const ProgressLine progress(fmt::format("/proc/self/fd/{}", file.get()));
    if (setxattr(path.c_str(), kFilter, spec.data(), spec.size(), 0) != 0) {
      const int code = errno;
      int ignored = 0;
      const std::optional<std::string> reason = attribute(path, "user._Error", ignored);
      if (reason && !reason->empty()) return fail(code, "{}", *reason);
      return fail_errno(code, "{}: {} cannot be set", path, kFilter);
    }
  }
  int ignored = 0;
  FiltersSet set{.now = attribute(path, kFilter, ignored).value_or(spec)};
  while (set.now.ends_with('\n')) set.now.pop_back();
  // There are references to chunks of these files alone.
  set.is_hdf5 = access((mountpoint + "/.codecfs/references.json").c_str(), F_OK) == 0;
  return set;
}

}  // namespace codecfs::mount
