#include "backends/zarr/source/nczarr_scope.h"

#include <algorithm>

#include "backends/api/names.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

/// The JSON of a file; null if it does not exist. An unreadable file is an error, because unknown content must not be
/// overwritten.
Result<Json> read_json(const Hierarchy& hierarchy, const std::string& key) {
  CODECFS_ASSIGN(const auto text, hierarchy.read_text(key));
  if (!text) return Json();
  auto json = parse_json(*text);
  if (!json) return fail(EIO, "{}: {}", key, json.error().reason);
  return std::move(*json);
}

std::vector<uint64_t> shape_of(const Json& zarray) {
  std::vector<uint64_t> shape;
  const auto list = zarray.is_object() ? zarray.find("shape") : zarray.end();
  if (list == zarray.end() || !list->is_array()) return shape;
  for (const Json& length : *list)
    if (length.is_number_unsigned()) shape.push_back(length.get<uint64_t>());
  return shape;
}

}  // namespace

std::string dimension_path(const std::string& group, std::string_view name) { return "/" + join_key(group, name); }

std::optional<std::pair<std::string, std::string>> split_path(const std::string& path) {
  if (!path.starts_with('/')) return std::nullopt;
  const size_t slash = path.rfind('/');
  if (slash + 1 == path.size()) return std::nullopt;
  return std::pair(slash == 0 ? "" : path.substr(1, slash - 1), path.substr(slash + 1));
}

bool NczarrUser::has(const std::string& path) const {
  return std::ranges::find(*own.references, path) != own.references->end();
}

void NczarrScope::pretend_moved(std::string from, std::string to) {
  from_ = std::move(from);
  to_ = std::move(to);
}

std::string NczarrScope::stored_key(const std::string& key) const {
  if (to_.empty() || !is_at_or_below(key, to_)) return key;
  return from_ + key.substr(to_.size());
}

Result<NczarrScope::Lists> NczarrScope::load(const std::string& group) const {
  const std::string key = stored_key(group);
  Lists lists;
  CODECFS_ASSIGN(const Json zgroup, read_json(hierarchy_, join_key(key, kGroupFile)));
  CODECFS_ASSIGN(const Json zattrs, read_json(hierarchy_, join_key(key, kAttributesFile)));
  CODECFS_ASSIGN(const Json nczgroup, read_json(hierarchy_, join_key(key, ".nczgroup")));
  lists.group = parse_nczarr_group(zgroup, zattrs, nczgroup);
  if (lists.group) {
    CODECFS_ASSIGN(lists.text, hierarchy_.read_text(join_key(key, nczarr_group_file(lists.group->form))));
  }
  return lists;
}

Result<NczarrGroup*> NczarrScope::at(const std::string& group) {
  auto found = groups_.find(group);
  if (found == groups_.end()) {
    CODECFS_ASSIGN(Lists lists, load(group));
    found = groups_.emplace(group, std::move(lists)).first;
  }
  return found->second.group ? &*found->second.group : nullptr;
}

Result<std::vector<NczarrEdit>> NczarrScope::take_edits(const std::string& last) {
  std::vector<NczarrEdit> edits;
  for (auto& [key, lists] : groups_) {
    if (!lists.is_changed) continue;
    CODECFS_ASSIGN(std::string text, with_lists(lists.text, *lists.group));
    lists.is_changed = false;
    edits.push_back({key, EntryKind::group, nczarr_group_file(lists.group->form), text, std::move(lists.text)});
    lists.text = std::move(text);
  }
  std::ranges::stable_partition(edits, [&](const NczarrEdit& edit) { return edit.key != last; });
  return edits;
}

Result<NczarrDimension*> NczarrScope::dimension(const std::string& path) {
  const auto parts = split_path(path);
  if (!parts) return nullptr;
  CODECFS_ASSIGN(NczarrGroup * group, at(parts->first));
  return group != nullptr ? group->find(parts->second) : nullptr;
}

Result<bool> NczarrScope::sees(const std::string& group, std::string_view name) {
  for (std::string above = group;; above = holder_of(above)) {
    CODECFS_ASSIGN(NczarrGroup * lists, at(above));
    if (lists != nullptr && lists->find(name) != nullptr) return true;
    if (above.empty()) return false;
  }
}

Result<std::string> NczarrScope::resolve(const std::string& group, const Wanted& wanted, const std::string& user) {
  if (!is_netcdf_name(wanted.name))
    return fail(EINVAL, "netCDF has no dimension of the name \"{}\", and this store is netCDF-C's", wanted.name);
  for (std::string above = group;; above = holder_of(above)) {
    CODECFS_ASSIGN(NczarrGroup * lists, at(above));
    NczarrDimension* found = lists != nullptr ? lists->find(wanted.name) : nullptr;
    if (found != nullptr && (found->length == wanted.length || found->is_unlimited)) {
      if (found->length < wanted.length) {
        found->length = wanted.length;
        touch(above);
      }
      return dimension_path(above, wanted.name);
    }
    if (found != nullptr && above == group) {
      CODECFS_TRY(redefine(group, wanted, user));
      return dimension_path(group, wanted.name);
    }
    // one in a parent group is hidden or has another length: create one here
    if (found != nullptr || above.empty()) break;
  }
  CODECFS_ASSIGN(NczarrGroup * own, at(group));
  own->dimensions.push_back({wanted.name, wanted.length, wanted.is_unlimited && own->form == NczarrForm::attributes});
  touch(group);
  return dimension_path(group, wanted.name);
}

/// A fixed dimension without users may change its length.
Result<> NczarrScope::redefine(const std::string& group, const Wanted& wanted, const std::string& user) {
  const std::string path = dimension_path(group, wanted.name);
  CODECFS_ASSIGN(NczarrDimension * found, dimension(path));
  CODECFS_ASSIGN(const auto other, other_user(path, user));
  if (other)
    return fail(EINVAL, "dimension {} has the length {} for netCDF, not {}, and {} has it too", path, found->length,
                wanted.length, *other);
  found->length = wanted.length;
  touch(group);
  return {};
}

Result<std::optional<std::string>> NczarrScope::other_user(const std::string& path, const std::string& user) {
  std::optional<std::string> other;
  const auto parts = split_path(path);
  if (!parts) return other;
  const std::string group = stored_key(parts->first);
  const std::string stored_path = dimension_path(group, parts->second);
  const std::string stored_user = stored_key(user);
  CODECFS_ASSIGN(const auto* all, users(group));
  for (const NczarrUser& one : *all)
    if (one.key != stored_user && one.has(stored_path)) other = one.key;
  return other;
}

Result<const std::vector<NczarrUser>*> NczarrScope::users(const std::string& group) {
  if (const auto known = users_.find(group); known != users_.end()) return &known->second;
  std::vector<NczarrUser> found;
  CODECFS_TRY(collect_users(group, found));
  return &users_.emplace(group, std::move(found)).first->second;
}

Result<> NczarrScope::collect_users(const std::string& group, std::vector<NczarrUser>& found) {
  std::vector<std::pair<std::string, EntryKind>> members;
  CODECFS_TRY(hierarchy_.for_each(group, [&](std::string_view name, EntryKind kind) {
    members.emplace_back(join_key(group, name), kind);
    return true;
  }));
  for (const auto& [key, kind] : members) {
    if (kind == EntryKind::group) {
      CODECFS_TRY(collect_users(key, found));
      continue;
    }
    CODECFS_ASSIGN(auto one, user(key));
    if (one) found.push_back(std::move(*one));
  }
  return {};
}

Result<std::optional<NczarrUser>> NczarrScope::user(const std::string& key) {
  CODECFS_ASSIGN(const Json zarray, read_json(hierarchy_, join_key(key, kArrayFile)));
  CODECFS_ASSIGN(const Json zattrs, read_json(hierarchy_, join_key(key, kAttributesFile)));
  CODECFS_ASSIGN(Json nczvar, read_json(hierarchy_, join_key(key, ".nczvar")));
  if (nczvar.is_null()) {
    CODECFS_ASSIGN(nczvar, read_json(hierarchy_, join_key(key, ".nczarray")));
  }
  auto own = parse_nczarr(zarray, zattrs, nczvar);
  std::vector<uint64_t> shape = shape_of(zarray);
  if (own && own->is_scalar) shape.clear();
  if (!own || !own->references || own->references->size() != shape.size()) return std::nullopt;
  return NczarrUser{key, std::move(*own), std::move(shape)};
}

}  // namespace codecfs::zarr
