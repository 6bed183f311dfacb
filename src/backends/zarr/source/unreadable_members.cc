#include "backends/zarr/source/unreadable_members.h"

#include <algorithm>
#include <string_view>

#include "backends/api/names.h"
#include "base/log.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

constexpr std::string_view kNodeFiles[] = {kArrayFile, kGroupFile};

/// The keys of groups and arrays in the consolidated metadata. Empty if there is none, or if it is damaged: nothing
/// here is read from it.
std::set<std::string> read_listed(const Hierarchy& hierarchy) {
  std::set<std::string> keys;
  const bool is_v3 = hierarchy.format() == ZarrFormat::v3;
  const auto text = hierarchy.read_text(is_v3 ? kZarr3File : kConsolidatedFile);
  if (!text || !*text) return keys;
  const auto json = parse_json(**text);
  if (!json || !json->is_object()) return keys;
  const Json* holder = &*json;
  if (is_v3) {
    const auto consolidated = json->find("consolidated_metadata");
    if (consolidated == json->end() || !consolidated->is_object()) return keys;
    holder = &*consolidated;
  }
  const auto metadata = holder->find("metadata");
  if (metadata == holder->end() || !metadata->is_object()) return keys;
  for (const auto& [key, ignored] : metadata->items()) {
    if (is_v3)
      keys.insert(key);
    else if (std::ranges::find(kNodeFiles, std::string_view(name_of(key))) != std::ranges::end(kNodeFiles))
      keys.insert(holder_of(key));
  }
  return keys;
}

}  // namespace

bool UnreadableMembers::is_listed(const Hierarchy& hierarchy, const std::string& key) {
  const LockGuard lock(mutex_);
  if (!listed_) listed_ = read_listed(hierarchy);
  return listed_->contains(key);
}

Result<std::vector<UnreadableMember>> UnreadableMembers::of(const Hierarchy& hierarchy, const std::string& group) {
  std::vector<UnreadableMember> found;
  CODECFS_TRY(hierarchy.store().for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (type == Store::EntryType::file || type == Store::EntryType::special) return {};
    const std::string key = join_key(group, name);
    const auto kind = hierarchy.kind_of(key);
    if (!kind && kind.error().code == EINTR) return std::unexpected(kind.error());
    if (!kind) {
      if (kind.error().code != ELOOP) found.push_back({escape_name(name), kind.error()});
    } else if (!*kind && is_listed(hierarchy, key)) {
      const bool is_v3 = hierarchy.format() == ZarrFormat::v3;
      found.push_back({escape_name(name), Error{EIO, fmt::format("{}: has no {}, but {} lists it", key,
                                                                 is_v3 ? kZarr3File : ".zarray or .zgroup",
                                                                 is_v3 ? "the consolidated metadata" : ".zmetadata")}});
    }
    return {};
  }));
  std::ranges::sort(found, {}, &UnreadableMember::name);
  return found;
}

}  // namespace codecfs::zarr
