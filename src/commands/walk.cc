#include "commands/walk.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/closest_name.h"

namespace codecfs::commands {
namespace {

constexpr size_t kMaxDepth = 1024;  // a deeper path would exceed PATH_MAX
constexpr int kMaxLinks = 40;       // as in Linux

bool has_members(EntryKind kind) { return kind == EntryKind::group || kind == EntryKind::folder; }

Result<Members> by_list(Source& source, ObjectId group) {
  CODECFS_ASSIGN(std::vector<Entry> entries, source.list(group));
  return Members{std::move(entries), {}};
}

/// The path to which a link in the group `parent` leads, with the names behind it.
std::string target_of(const std::string& parent, const std::string& target, const std::string& behind) {
  const std::filesystem::path base = target.starts_with('/') ? "/" : "/" + parent;
  return normal_path((base / (target + behind)).lexically_normal().string());
}

}  // namespace

Result<> walk(Source& source, const Visit& visit, const VisitError& on_error) {
  return walk(source, "", source.root(), visit, on_error);
}

Result<> walk(Source& source, const std::string& start_path, const Entry& start, const Visit& visit,
              const VisitError& on_error, const ListMembers& list_members) {
  struct Level {
    std::string path;
    std::vector<Entry> entries;
    size_t next = 0;
  };
  if (has_members(start.kind)) (void)source.expect_tree(start.object);  // an error shows again
  std::vector<Level> levels;
  levels.push_back({"", {start}, 0});
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const Entry& entry = level.entries[level.next++];
    const std::string path = levels.size() == 1   ? start_path
                             : level.path.empty() ? entry.name
                                                  : level.path + "/" + entry.name;
    CODECFS_TRY(visit(path, entry));
    if (!has_members(entry.kind)) continue;
    if (levels.size() > kMaxDepth) return fail(EFBIG, "{}: groups are nested deeper than {}", path, kMaxDepth);
    Result<Members> members = list_members ? list_members(source, entry.object) : by_list(source, entry.object);
    if (!members) {
      CODECFS_TRY(on_error(path, members.error()));
      continue;
    }
    if (!list_members) {
      CODECFS_ASSIGN(members->unreadable, source.unreadable_members(entry.object));
    }
    for (const UnreadableMember& member : members->unreadable)
      CODECFS_TRY(on_error(path.empty() ? member.name : path + "/" + member.name, member.error));
    levels.push_back({path, std::move(members->entries), 0});
  }
  return {};
}

Result<Entry> find_path(Source& source, const std::string& path) {
  std::string names = normal_path(path);
  for (int links = 0; links < kMaxLinks; ++links) {
    Entry at = source.root();
    std::string parent;  // of the next name
    bool has_link = false;
    for (size_t begin = 0; begin < names.size() && !has_link;) {
      const size_t end = std::min(names.find('/', begin), names.size());
      if (!has_members(at.kind)) return fail(ENOTDIR, "/{} is not a group", parent);
      const Result<Entry> found = source.find(at.object, names.substr(begin, end - begin));
      if (!found && found.error().code == ENOENT) return fail(ENOENT, "there is no /{}", names.substr(0, end));
      if (!found) return std::unexpected(found.error());
      at = *found;
      has_link = at.kind == EntryKind::symlink;
      if (has_link) names = target_of(parent, at.target, names.substr(end));
      parent = names.substr(0, end);
      begin = end + 1;
    }
    if (!has_link) return at;
  }
  return fail(ELOOP, "/{}: too many links", normal_path(path));
}

Result<Entry> find_named(Source& source, const std::string& path) {
  Result<Entry> found = find_path(source, path);
  if (found || found.error().code != ENOENT) return found;
  const std::string names = normal_path(path);
  std::string parent;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find('/', begin), names.size());
    const Result<Entry> above = find_path(source, parent);
    if (!above || !has_members(above->kind)) return found;
    if (find_path(source, names.substr(0, end))) {
      parent = names.substr(0, end);
      begin = end + 1;
      continue;
    }
    const Result<std::vector<Entry>> members = source.list(above->object);
    if (!members) return found;
    std::vector<std::string_view> known;
    for (const Entry& member : *members) known.emplace_back(member.name);
    return fail(ENOENT, "{}{}", found.error().reason, did_you_mean(names.substr(begin, end - begin), known));
  }
  return found;
}

std::string normal_path(std::string_view path) {
  std::string normal;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (!normal.empty()) normal += '/';
    normal += name;
  }
  return normal;
}

bool is_within(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || top.empty() || path[top.size()] == '/');
}

}  // namespace codecfs::commands
