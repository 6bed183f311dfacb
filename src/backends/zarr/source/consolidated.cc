#include "backends/zarr/source/consolidated.h"

#include <map>
#include <new>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_write.h"
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
    log::warning("{}: is no longer in the consolidated metadata: {}", key, json.error().reason);
  }
  return {};
}

/// Readers of consolidated metadata find only what it lists.
Result<> add_implicit(const Hierarchy& hierarchy, const std::string& key, std::string_view text, Entries& entries) {
  const std::string file = join_key(key, hierarchy.file_of(EntryKind::group));
  if (key.empty() || entries.contains(file)) return {};
  CODECFS_ASSIGN(const auto kind, hierarchy.explicit_kind_of(key));
  if (kind) return {};
  CODECFS_ASSIGN(entries[file], parse_json(text));
  return {};
}

Result<> collect(const Hierarchy& hierarchy, const std::string& key, EntryKind kind, Entries& entries) {
  CODECFS_TRY(collect_file(hierarchy, join_key(key, kind == EntryKind::variable ? kArrayFile : kGroupFile), entries));
  CODECFS_TRY(collect_file(hierarchy, join_key(key, kAttributesFile), entries));
  if (kind == EntryKind::variable) return {};
  CODECFS_TRY(add_implicit(hierarchy, key, print_group(), entries));
  Result<> below;
  CODECFS_TRY(hierarchy.for_each(key, [&](std::string_view name, EntryKind member) {
    below = collect(hierarchy, join_key(key, name), member, entries);
    return below.has_value();
  }));
  return below;
}

Result<> collect_zarr3(const Hierarchy& hierarchy, const std::string& group, Entries& entries) {
  Result<> below;
  CODECFS_TRY(hierarchy.for_each(group, [&](std::string_view name, EntryKind member) {
    const std::string key = join_key(group, name);
    below = collect_file(hierarchy, join_key(key, kZarr3File), entries);
    if (member != EntryKind::group) return below.has_value();
    if (below) below = add_implicit(hierarchy, key, print_zarr3_group(), entries);
    if (below) below = collect_zarr3(hierarchy, key, entries);
    return below.has_value();
  }));
  return below;
}

/// zarr-python expects this member in groups that consolidated metadata copies.
Json without_members() { return {{"kind", "inline"}, {"must_understand", false}, {"metadata", Json::object()}}; }

Result<std::optional<std::string>> renewed_zarr3(const Hierarchy& hierarchy, std::string_view text) {
  CODECFS_ASSIGN(const auto is_consolidated, with_zarr3_entries(text, Json::object()));
  if (!is_consolidated) return std::nullopt;
  Entries entries;
  CODECFS_TRY(collect_zarr3(hierarchy, "", entries));
  Json sorted = Json::object();
  for (auto& [key, json] : entries) {
    if (json.is_object() && json.value("node_type", Json()) == "group")
      json["consolidated_metadata"] = without_members();
    append_member(sorted, holder_of(key), std::move(json));
  }
  return with_zarr3_entries(text, std::move(sorted));
}

}  // namespace

Result<std::optional<std::string>> renewed_consolidated(const Hierarchy& hierarchy, std::string_view text) try {
  if (hierarchy.format() == ZarrFormat::v3) return renewed_zarr3(hierarchy, text);
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
