#include "commands/walk.h"

#include <utility>
#include <vector>

namespace codecfs::commands {
namespace {

constexpr size_t kMaxDepth = 1024;  // a deeper path would exceed PATH_MAX

bool has_members(EntryKind kind) { return kind == EntryKind::group || kind == EntryKind::folder; }

}  // namespace

Result<> walk(Source& source, const Visit& visit, const VisitError& on_error) {
  struct Level {
    std::string path;
    std::vector<Entry> entries;
    size_t next = 0;
  };
  std::vector<Level> levels;
  levels.push_back({"", {source.root()}, 0});
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const Entry& entry = level.entries[level.next++];
    const std::string path = levels.size() == 1 ? "" : level.path.empty() ? entry.name : level.path + "/" + entry.name;
    CODECFS_TRY(visit(path, entry));
    if (!has_members(entry.kind)) continue;
    if (levels.size() > kMaxDepth) return fail(EFBIG, "{}: groups are nested deeper than {}", path, kMaxDepth);
    Result<std::vector<Entry>> members = source.list(entry.object);
    if (members)
      levels.push_back({path, *std::move(members), 0});
    else
      CODECFS_TRY(on_error(path, members.error()));
  }
  return {};
}

Result<Entry> find_path(Source& source, const std::string& path) {
  Entry at = source.root();
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (!has_members(at.kind)) return fail(ENOTDIR, "{}: {} is not in a group", path, name);
    const Result<Entry> found = source.find(at.object, name);
    if (!found && found.error().code == ENOENT) return fail(ENOENT, "{}: there is no {}", path, name);
    if (!found) return std::unexpected(found.error());
    at = *found;
  }
  return at;
}

}  // namespace codecfs::commands
