#include "backends/zarr/source/symbolic_links.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "backends/api/external_link.h"
#include "backends/api/link_notes.h"
#include "backends/api/names.h"
#include "backends/zarr/store/directory_writer.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

constexpr std::string_view kUserDefined = "user-defined-link:";

/// The key to which a link in `group` leads, as far as its text tells; none if that is not in the store.
std::optional<std::string> key_of_target(const Hierarchy& hierarchy, const std::string& group,
                                         const std::string& text) {
  if (text.starts_with('/')) return hierarchy.store().key_of(text);
  std::vector<std::string> names;
  const auto add = [&](std::string_view path) {
    for (const auto part : std::views::split(path, '/')) {
      const std::string_view name(part.begin(), part.end());
      if (name.empty() || name == ".") continue;
      if (name != "..") {
        names.emplace_back(name);
        continue;
      }
      if (names.empty()) return false;
      names.pop_back();
    }
    return true;
  };
  if (!add(group) || !add(text)) return std::nullopt;
  std::string key;
  for (const std::string& name : names) key = join_key(key, name);
  return key;
}

/// The target of a link, whose key is `key`, as a path of file names: from the group, or if it leads upwards, from the
/// root.
std::string shown_target(const std::string& text, const std::string& key) {
  const bool is_downward = !text.starts_with('/') && (text + "/").find("../") == text.npos;
  std::string shown = is_downward ? "" : "/";
  for (const auto part : std::views::split(is_downward ? std::string_view(text) : std::string_view(key), '/')) {
    const std::string_view name(part.begin(), part.end());
    if (name.empty() || name == ".") continue;
    shown += (shown.empty() || shown.ends_with('/') ? "" : "/") + escape_name(name);
  }
  return shown.empty() ? "." : shown;
}

bool is_metadata(std::string_view name) {
  return name.starts_with(".z") || name.starts_with(".ncz") || name == kZarr3File || is_temporary_name(name);
}

/// Whether the key is that file or directory: not if the path of a link passes another link.
bool is_same(const Store& store, const struct stat& status, const std::string& key) {
  const auto found = store.stat(key);
  return found && *found && (*found)->st_dev == status.st_dev && (*found)->st_ino == status.st_ino;
}

/// Json null: not a link for HDF5.
Json note_of(const Hierarchy& hierarchy, const std::string& group, const std::string& name, const std::string& text) {
  if (text.starts_with(kExternalLink)) {
    const std::string place = text.substr(kExternalLink.size());
    const size_t colon = std::min(place.rfind(":/"), place.rfind(':'));
    if (colon != place.npos && colon > 0 && colon + 1 < place.size())
      return external_link_note(place.substr(0, colon), place.substr(colon + 1));
  }
  if (text.starts_with(kUserDefined)) return {{"unsupported", "it was a link of a class that a program has defined"}};
  const std::string key = join_key(group, name);
  const auto kind = hierarchy.kind_of(key);
  const auto target = key_of_target(hierarchy, group, text);
  const auto status = hierarchy.store().stat(key);
  const bool is_there = status && *status;
  const bool is_member = kind && *kind;
  if (is_there && !is_member && kind) return {};  // a file or directory that is not Zarr's
  if (target && (!is_there || is_same(hierarchy.store(), **status, *target)))
    return {{"symlink", shown_target(text, *target)}};
  if (is_there) return {};
  return {{"unsupported", "it is a symbolic link that leads out of the store, to \"" + text + "\""}};
}

}  // namespace

Result<std::vector<Attribute>> link_notes(const Hierarchy& hierarchy, const std::string& group, const Json& noted) {
  std::vector<Attribute> notes;
  std::set<std::string> present;                // file names
  std::map<std::string_view, const Json*> old;  // by keys
  for (const auto& [key, note] : noted.items())
    if (!is_metadata(key)) old.try_emplace(key, &note);
  CODECFS_TRY(hierarchy.store().for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (is_metadata(name)) return {};
    const std::string shown = escape_name(name);
    present.insert(shown);
    const auto known = old.find(name);
    const bool is_escaped = known != old.end() && is_escape_noted(*known->second);
    Json note;
    if (type == Store::EntryType::unknown) {
      CODECFS_ASSIGN(const auto text, hierarchy.store().link_text(join_key(group, name)));
      const bool is_known = text && known != old.end() && member(*known->second, "link") == Json(*text);
      if (text) note = is_known ? *known->second : note_of(hierarchy, group, name, *text);
      if (!note.is_null()) {
        note["link"] = *text;
        notes.push_back({shown, std::move(note)});
        return {};
      }
    }
    if (is_escaped) notes.push_back({shown, escape_note()});
    return {};
  }));
  for (const auto& [key, note] : old) {
    std::string name = escape_name(key);
    if (note->is_object() && is_of_link(*note) && !present.contains(name)) notes.push_back({std::move(name), *note});
  }
  std::ranges::sort(notes, {}, &Attribute::name);
  return notes;
}

Result<LinksShown::Notes> LinksShown::of(ObjectId group, const std::function<Result<std::vector<Attribute>>()>& read) {
  if (!is_on_) return Notes();
  {
    const LockGuard lock(mutex_);
    if (const auto known = notes_.find(group); known != notes_.end()) return known->second;
  }
  CODECFS_ASSIGN(std::vector<Attribute> notes, read());
  std::erase_if(notes, [](const Attribute& note) { return !is_of_link(*note.value); });
  const LockGuard lock(mutex_);
  return notes_.try_emplace(group, std::make_shared<const std::vector<Attribute>>(std::move(notes))).first->second;
}

const Attribute* LinksShown::find(const Notes& notes, std::string_view name) {
  if (!notes) return nullptr;
  const auto found = std::ranges::lower_bound(*notes, name, {}, &Attribute::name);
  return found != notes->end() && found->name == name ? &*found : nullptr;
}

Entry LinksShown::entry_of(const Attribute& note) {
  const Json link = member(note.value, "link");
  return {note.name, EntryKind::symlink, 0, link.is_string() ? link.get<std::string>() : ""};
}

std::vector<Entry> LinksShown::entries(const Notes& notes) {
  std::vector<Entry> entries;
  if (notes)
    for (const Attribute& note : *notes) entries.push_back(entry_of(note));
  return entries;
}

}  // namespace codecfs::zarr
