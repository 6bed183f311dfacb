#include "backends/zarr/source/nczarr_changes.h"

#include <algorithm>
#include <map>

#include "backends/api/names.h"
#include "backends/zarr/source/nczarr_scope.h"
#include "base/log.h"

namespace codecfs::zarr {
namespace {

void append(std::vector<NczarrEdit>& edits, std::vector<NczarrEdit> more) {
  for (NczarrEdit& edit : more) edits.push_back(std::move(edit));
}

/// Removes a member from the list of its group; false if it was not listed.
Result<bool> unlist(NczarrScope& scope, const std::string& parent, const std::string& name) {
  CODECFS_ASSIGN(NczarrGroup * group, scope.at(parent));
  if (group == nullptr) return false;
  if (std::erase(group->arrays, name) + std::erase(group->groups, name) == 0) return false;
  scope.touch(parent);
  return true;
}

Result<> put_on_list(NczarrScope& scope, const std::string& parent, const std::string& name, EntryKind kind) {
  CODECFS_ASSIGN(NczarrGroup * group, scope.at(parent));
  if (group == nullptr || std::ranges::find(group->members(kind), name) != group->members(kind).end()) return {};
  group->members(kind).push_back(name);
  scope.touch(parent);
  return {};
}

/// References for the dimensions of a new array. A repeated name refers to the same dimension.
Result<std::vector<std::string>> references_of(NczarrScope& scope, const std::string& parent, const std::string& name,
                                               const Variable& variable) {
  std::vector<std::string> references;
  std::map<std::string, uint64_t> seen;
  const auto& shape = variable.grid.shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    NczarrScope::Wanted wanted{.name = {}, .length = shape[i], .is_unlimited = true};
    if (i < variable.max_shape.size()) wanted.is_unlimited = !variable.max_shape[i];
    wanted.name = variable.dimensions ? (*variable.dimensions)[i] : fmt::format("{}{}", kAnonymousDimension, shape[i]);
    CODECFS_ASSIGN(const std::string path, scope.resolve(parent, wanted, join_key(parent, name)));
    if (const auto [place, is_new] = seen.emplace(path, shape[i]); !is_new && place->second != shape[i])
      return fail(EINVAL, "dimension {} cannot have the lengths {} and {}", path, place->second, shape[i]);
    references.push_back(path);
  }
  return references;
}

/// The file with the references of an array: 4.8.1 uses another name for the object of 4.8.0.
Result<const char*> references_file(const Hierarchy& hierarchy, const std::string& key, NczarrForm form) {
  if (form != NczarrForm::objects) return nczarr_array_file(form);
  CODECFS_ASSIGN(const auto text, hierarchy.read_text(join_key(key, ".nczvar")));
  return text ? ".nczvar" : ".nczarray";
}

/// Replaces the references in an array's own file, which is stored at `stored_key`; the edit is for `key`.
Result<NczarrEdit> edit_references(const Hierarchy& hierarchy, const std::string& key, const std::string& stored_key,
                                   NczarrForm form, std::span<const std::string> references) {
  CODECFS_ASSIGN(const char* file, references_file(hierarchy, stored_key, form));
  CODECFS_ASSIGN(auto old_text, hierarchy.read_text(join_key(stored_key, file)));
  CODECFS_ASSIGN(std::string text, with_references(old_text, form, references));
  return NczarrEdit{key, EntryKind::variable, file, std::move(text), std::move(old_text)};
}

/// Computes the reference of an array after a move.
class MovedReference {
 public:
  MovedReference(NczarrScope& scope, std::string from, std::string to)
      : scope_(scope), from_(std::move(from)), to_(std::move(to)) {}

  Result<std::string> of(const std::string& path, uint64_t length, const std::string& array) {
    const auto parts = split_path(path);
    if (!parts) return path;
    if (is_at_or_below(parts->first, from_))
      return dimension_path(to_ + parts->first.substr(from_.size()), parts->second);
    const std::string group = holder_of(array);
    CODECFS_ASSIGN(const NczarrGroup* own, scope_.at(group));
    CODECFS_ASSIGN(const NczarrDimension* dimension, scope_.dimension(path));
    const bool is_seen = parts->first.empty() || is_at_or_below(group, parts->first);
    if (own == nullptr || (dimension != nullptr && is_seen)) return path;
    const bool is_unlimited = dimension != nullptr && dimension->is_unlimited;
    return scope_.resolve(group, {parts->second, length, is_unlimited}, array);
  }

 private:
  NczarrScope& scope_;
  std::string from_;
  std::string to_;
};

/// New references for the arrays at a key and its descendants, valid after the move.
Result<std::vector<NczarrEdit>> move_references(const Hierarchy& hierarchy, NczarrScope& scope, const std::string& from,
                                                EntryKind kind, const std::string& to) {
  std::vector<NczarrUser> users;
  if (kind == EntryKind::variable) {
    CODECFS_ASSIGN(auto user, scope.user(from));
    if (user) users.push_back(std::move(*user));
  } else {
    CODECFS_ASSIGN(const auto* below, scope.users(from));
    users = *below;
  }
  scope.pretend_moved(from, to);
  MovedReference moved(scope, kind == EntryKind::group ? from : from + "/", to);
  std::vector<NczarrEdit> edits;
  for (const NczarrUser& user : users) {
    const std::string key = to + user.key.substr(from.size());
    std::vector<std::string> references;
    for (size_t i = 0; i < user.shape.size(); ++i) {
      CODECFS_ASSIGN(std::string reference, moved.of((*user.own.references)[i], user.shape[i], key));
      references.push_back(std::move(reference));
    }
    if (references == *user.own.references) continue;
    CODECFS_ASSIGN(NczarrEdit edit, edit_references(hierarchy, key, user.key, user.own.form, references));
    edits.push_back(std::move(edit));
  }
  return edits;
}

/// The old and new name of one dimension of an array.
struct Renamed {
  std::string reference;
  std::string left;  // the path of a dimension without remaining users; empty: none
};

Result<Renamed> rename_dimension(NczarrScope& scope, const std::string& key, const std::string& old_path,
                                 const std::string& name, uint64_t length) {
  const std::string group = holder_of(key);
  CODECFS_ASSIGN(const NczarrDimension* old, scope.dimension(old_path));
  const auto parts = split_path(old_path);
  if (old == nullptr || !parts) {
    CODECFS_ASSIGN(std::string path, scope.resolve(group, {name, length, true}, key));
    return Renamed{std::move(path), ""};
  }
  if (old->name == name) return Renamed{old_path, ""};
  const bool is_unlimited = old->is_unlimited;
  const bool is_anonymous = old->name.starts_with(kAnonymousDimension);
  CODECFS_ASSIGN(const bool is_there, scope.sees(group, name));
  std::optional<std::string> other = "others";
  if (is_anonymous || !is_there) {
    CODECFS_ASSIGN(other, scope.other_user(old_path, key));
  }
  // If all users get the new name, rename the dimension where it is defined.
  CODECFS_ASSIGN(std::string path,
                 scope.resolve(!is_there && !other ? parts->first : group, {name, length, is_unlimited}, key));
  return Renamed{std::move(path), other ? "" : old_path};
}

/// netCDF-C, when it makes a scalar, first writes an array of one element, and then that it is a scalar.
bool becomes_scalar(const Array& array, std::span<const std::string> names) {
  const std::vector<uint64_t> one{1};
  const ChunkGrid& grid = array.variable.grid;
  return array.nczarr->form == NczarrForm::attributes && names.size() == 1 && names[0] == kScalarDimension &&
         grid.shape() == one && grid.chunks() == one;
}

}  // namespace

Result<NczarrNewGroup> nczarr_new_group(const Hierarchy& hierarchy, const std::string& parent,
                                        const std::string& name) {
  NczarrNewGroup made;
  NczarrScope scope(hierarchy);
  CODECFS_ASSIGN(const NczarrGroup* above, scope.at(parent));
  made.files.emplace_back(kGroupFile, print_group());
  if (above == nullptr || !is_netcdf_name(name)) return made;
  NczarrGroup group;
  group.form = above->form;
  const char* file = nczarr_group_file(group.form);
  const bool is_group_file = std::string_view(file) == kGroupFile;
  CODECFS_ASSIGN(std::string text, with_lists(is_group_file ? std::optional(print_group()) : std::nullopt, group));
  if (is_group_file) made.files.clear();
  made.files.emplace_back(file, std::move(text));
  CODECFS_TRY(unlist(scope, parent, name));  // of an object that another program has removed
  CODECFS_TRY(put_on_list(scope, parent, name, EntryKind::group));
  CODECFS_ASSIGN(made.plan.after, scope.take_edits());
  return made;
}

Result<NczarrNewArray> nczarr_new_array(const Hierarchy& hierarchy, const std::string& parent, const std::string& name,
                                        const Variable& variable, NewArray files) {
  NczarrNewArray made;
  NczarrScope scope(hierarchy);
  CODECFS_TRY(unlist(scope, parent, name));
  CODECFS_ASSIGN(made.plan.before, scope.take_edits());
  CODECFS_ASSIGN(const NczarrGroup* group, scope.at(parent));
  if (group == nullptr) {
    made.files = std::move(files);
    return made;
  }
  const Result<> fits = check_nczarr(variable, group->form);
  if (!fits && group->form == NczarrForm::attributes) return std::unexpected(fits.error());
  if (!fits || !is_netcdf_name(name)) {
    log::info("{}: is plain Zarr in a store of netCDF-C: {}", join_key(parent, name),
              fits ? "it has no such names" : fits.error().reason);
    made.files = std::move(files);
    return made;
  }
  CODECFS_ASSIGN(const auto references, references_of(scope, parent, name, variable));
  CODECFS_ASSIGN(made.files, as_nczarr(std::move(files), variable, group->form, references));
  CODECFS_TRY(put_on_list(scope, parent, name, EntryKind::variable));
  CODECFS_ASSIGN(made.plan.after, scope.take_edits(parent));
  return made;
}

Result<NczarrPlan> nczarr_definitions(const Hierarchy& hierarchy, const std::string& key,
                                      std::span<const NczarrDimension> dimensions) {
  NczarrPlan plan;
  NczarrScope scope(hierarchy);
  CODECFS_ASSIGN(NczarrGroup * group, scope.at(key));
  for (const NczarrDimension& wanted : dimensions) {
    if (group == nullptr) break;
    if (!is_netcdf_name(wanted.name)) return fail(EINVAL, "netCDF has no dimension of the name \"{}\"", wanted.name);
    NczarrDimension fresh = wanted;
    fresh.is_unlimited &= group->form == NczarrForm::attributes;
    NczarrDimension* const there = group->find(wanted.name);
    if (there == nullptr) {
      group->dimensions.push_back(std::move(fresh));
    } else if (there->length == fresh.length && there->is_unlimited == fresh.is_unlimited) {
      continue;
    } else {
      CODECFS_ASSIGN(const auto user, scope.other_user(dimension_path(key, wanted.name), {}));
      if (user && there->length != fresh.length) continue;  // arrays tell how long it is
      *there = std::move(fresh);
    }
    scope.touch(key);
  }
  CODECFS_ASSIGN(plan.before, scope.take_edits());
  return plan;
}

Result<NczarrPlan> nczarr_removal(const Hierarchy& hierarchy, const std::string& parent, const std::string& name) {
  NczarrPlan plan;
  NczarrScope scope(hierarchy);
  CODECFS_TRY(unlist(scope, parent, name));
  CODECFS_ASSIGN(plan.before, scope.take_edits());
  return plan;
}

Result<NczarrPlan> nczarr_move(const Hierarchy& hierarchy, const std::string& from, EntryKind kind,
                               const std::string& to) {
  NczarrPlan plan;
  NczarrScope scope(hierarchy);
  CODECFS_ASSIGN(const NczarrGroup* group, scope.at(holder_of(from)));
  if (group == nullptr) return plan;
  CODECFS_ASSIGN(const bool was_listed, unlist(scope, holder_of(from), name_of(from)));
  CODECFS_ASSIGN(plan.before, scope.take_edits());
  CODECFS_ASSIGN(plan.after, move_references(hierarchy, scope, from, kind, to));
  if (was_listed && is_netcdf_name(name_of(to))) CODECFS_TRY(put_on_list(scope, holder_of(to), name_of(to), kind));
  CODECFS_ASSIGN(auto lists, scope.take_edits(holder_of(to)));
  append(plan.after, std::move(lists));
  return plan;
}

Result<NczarrPlan> nczarr_dimensions(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                     std::span<const std::string> names) {
  NczarrPlan plan;
  NczarrScope scope(hierarchy);
  const auto& shape = array.variable.grid.shape();
  CODECFS_ASSIGN(const NczarrGroup* group, scope.at(holder_of(key)));
  std::vector<std::string> references;
  std::vector<std::string> left;
  const bool is_scalar = group != nullptr && becomes_scalar(array, names);
  if (is_scalar && array.nczarr->references) {
    for (const std::string& path : *array.nczarr->references) {
      CODECFS_ASSIGN(const auto other, scope.other_user(path, key));
      if (!other) left.push_back(path);
    }
  }
  for (size_t i = 0; group != nullptr && !is_scalar && i < names.size(); ++i) {
    const auto& old = array.nczarr->references;
    CODECFS_ASSIGN(Renamed renamed,
                   rename_dimension(scope, key, old && i < old->size() ? (*old)[i] : "", names[i], shape[i]));
    for (size_t j = 0; j < references.size(); ++j)
      if (references[j] == renamed.reference && shape[j] != shape[i])
        return fail(EINVAL, "dimension {} cannot have the lengths {} and {}", names[i], shape[j], shape[i]);
    references.push_back(std::move(renamed.reference));
    if (!renamed.left.empty()) left.push_back(std::move(renamed.left));
  }
  CODECFS_ASSIGN(plan.before, scope.take_edits());

  const NczarrForm form = array.nczarr->form;
  CODECFS_ASSIGN(auto zattrs, hierarchy.read_text(join_key(key, kAttributesFile)));
  CODECFS_ASSIGN(std::string named, with_dimensions(zattrs, names));
  if (group != nullptr && form == NczarrForm::attributes) {
    CODECFS_ASSIGN(named, with_references(named, form, references));
  } else if (group != nullptr) {
    CODECFS_ASSIGN(NczarrEdit edit, edit_references(hierarchy, key, key, form, references));
    plan.before.push_back(std::move(edit));
  }
  plan.before.push_back({key, EntryKind::variable, kAttributesFile, std::move(named), std::move(zattrs)});

  for (const std::string& path : left) {
    const auto parts = split_path(path);
    if (std::ranges::find(references, path) != references.end() || !parts) continue;
    CODECFS_ASSIGN(NczarrGroup * lists, scope.at(parts->first));
    std::erase_if(lists->dimensions, [&](const NczarrDimension& one) { return one.name == parts->second; });
    scope.touch(parts->first);
  }
  CODECFS_ASSIGN(plan.after, scope.take_edits());
  return plan;
}

Result<NczarrPlan> nczarr_resize(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                 std::span<const uint64_t> shape) {
  NczarrPlan plan;
  NczarrScope scope(hierarchy);
  const auto& references = array.nczarr->references;
  const auto& old_shape = array.variable.grid.shape();
  if (!references || references->size() != shape.size()) return plan;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string& path = (*references)[i];
    CODECFS_ASSIGN(NczarrDimension * dimension, scope.dimension(path));
    if (shape[i] == old_shape[i] || dimension == nullptr) continue;
    for (size_t j = 0; j < shape.size(); ++j)
      if ((*references)[j] == path && shape[j] != shape[i])
        return fail(EINVAL, "dimension {} cannot have the lengths {} and {}", path, shape[i], shape[j]);
    uint64_t length = shape[i];
    if (!dimension->is_unlimited) {
      CODECFS_ASSIGN(const auto other, scope.other_user(path, key));
      if (other) return fail(EINVAL, "dimension {} has a fixed length for netCDF, and {} has it too", path, *other);
    } else if (length < dimension->length) {
      const auto parts = split_path(path);
      CODECFS_ASSIGN(const auto* users, scope.users(parts->first));
      for (const NczarrUser& user : *users)
        for (size_t j = 0; user.key != key && j < user.shape.size(); ++j)
          if ((*user.own.references)[j] == path) length = std::max(length, user.shape[j]);
    }
    if (dimension->length == length) continue;
    dimension->length = length;
    scope.touch(split_path(path)->first);
  }
  CODECFS_ASSIGN(plan.before, scope.take_edits());
  return plan;
}

Result<NczarrSettlement> nczarr_settle(const Hierarchy& hierarchy) {
  NczarrSettlement settlement;
  NczarrScope scope(hierarchy);
  CODECFS_ASSIGN(const NczarrGroup* root, scope.at(""));
  if (root == nullptr) return settlement;
  CODECFS_ASSIGN(const auto* users, scope.users(""));
  for (const NczarrUser& user : *users) {
    for (size_t i = 0; i < user.shape.size(); ++i) {
      const std::string& path = (*user.own.references)[i];
      CODECFS_ASSIGN(NczarrDimension * dimension, scope.dimension(path));
      if (dimension == nullptr || !dimension->is_unlimited || dimension->length >= user.shape[i]) continue;
      dimension->length = user.shape[i];
      scope.touch(split_path(path)->first);
    }
  }
  for (const NczarrUser& user : *users) {
    std::vector<uint64_t> shape = user.shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      CODECFS_ASSIGN(const NczarrDimension* dimension, scope.dimension((*user.own.references)[i]));
      if (dimension != nullptr && dimension->is_unlimited) shape[i] = dimension->length;
    }
    if (shape != user.shape) settlement.shapes.emplace_back(user.key, std::move(shape));
  }
  CODECFS_ASSIGN(settlement.lists, scope.take_edits());
  return settlement;
}

Result<std::vector<std::optional<uint64_t>>> nczarr_limits(const Hierarchy& hierarchy, const Array& array) {
  std::vector<std::optional<uint64_t>> limits;
  const auto& references = array.nczarr->references;
  const auto& shape = array.variable.grid.shape();
  if (!references || references->size() != shape.size()) return limits;
  NczarrScope scope(hierarchy);
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto dimension = scope.dimension((*references)[i]);
    if (!dimension || *dimension == nullptr) return std::vector<std::optional<uint64_t>>();  // the list is damaged
    limits.push_back((*dimension)->is_unlimited ? std::nullopt : std::optional(shape[i]));
  }
  return limits;
}

}  // namespace codecfs::zarr
