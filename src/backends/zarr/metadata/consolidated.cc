#include "backends/zarr/metadata/consolidated.h"

#include <map>
#include <new>

#include "backends/zarr/metadata/metadata_write.h"
#include "base/log.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

using Entries = std::map<std::string, Json>;

Result<> collect_file(const Hierarchy& hierarchy, const std::string& key, Entries& entries) {
  CODECFS_ASSIGN(const auto text, hierarchy.read_text(key));
  if (!text) return {};
  auto json = parse_json(*text);
  if (json) {
    entries[key] = std::move(*json);
  } else {
    log::warning("{}: is no longer in .zmetadata: {}", key, json.error().reason);
  }
  return {};
}

Result<> collect(const Hierarchy& hierarchy, const std::string& key, EntryKind kind, Entries& entries) {
  CODECFS_TRY(collect_file(hierarchy, join_key(key, kind == EntryKind::variable ? kArrayFile : kGroupFile), entries));
  CODECFS_TRY(collect_file(hierarchy, join_key(key, kAttributesFile), entries));
  if (kind == EntryKind::variable) return {};
  Result<> below;
  CODECFS_TRY(hierarchy.for_each(key, [&](std::string_view name, EntryKind member) {
    below = collect(hierarchy, join_key(key, name), member, entries);
    return below.has_value();
  }));
  return below;
}

}  // namespace

Result<std::optional<std::string>> renewed_consolidated(const Hierarchy& hierarchy, std::string_view text) try {
  Entries entries;
  CODECFS_TRY(collect(hierarchy, "", EntryKind::group, entries));
  Json sorted = Json::object();
  for (auto& [key, json] : entries) append_member(sorted, key, std::move(json));
  auto renewed = with_entries(text, std::move(sorted));
  if (renewed && !*renewed)
    log::warning(".zmetadata: has an unknown form, so it is not updated and may be out of date");
  return renewed;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zmetadata: no memory to rewrite it");
}

}  // namespace codecfs::zarr
