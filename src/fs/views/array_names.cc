#include "fs/views/array_names.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "backends/api/names.h"
#include "fs/chunks/array_file.h"

namespace codecfs::fs {
namespace {

constexpr unsigned kMaxLinks = 40;  // as many as the kernel follows

/// The path, with the suffix of the form at its last name.
std::string path_in(const ArrayForm& form, std::string_view path) {
  const size_t name = path.rfind('/') + 1;
  return fmt::format("{}{}", path.substr(0, name), with_suffix(path.substr(name), form.suffix));
}

}  // namespace

std::string array_path(const Node& node) {
  if (node.is_root()) return fmt::format("/{}", files_of(node).front().name);
  const ArrayForm* const form = node.form().array;
  return form == nullptr ? node.path : path_in(*form, node.path);
}

Result<ArrayFile> array_of(VariablePtr variable, View view) {
  const ArrayForm* const form = form_of(view).array;
  if (form == nullptr) return std::unexpected(Error{ENOENT, {}});
  return ArrayFile::make(std::move(variable), *form);
}

Result<ArrayFile> array_of(Dataset& dataset, View view, ObjectId variable) {
  CODECFS_ASSIGN(const VariableViewPtr now, dataset.variable(variable));
  return array_of(now->facts, view);
}

Result<Entry> ArrayNames::find(const Node& group, std::string_view name) {
  Source& source = mount_.dataset.source();
  const std::string_view suffix = group.form().array->suffix;
  if (!suffix.empty() && name.size() > suffix.size() && name.ends_with(suffix)) {
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    const Result<Entry> entry = source.find(group.object, stem);
    if (!entry && entry.error().code != ENOENT) return entry;
    if (entry && variable_behind(group, *entry)) return entry;
    if (is_cut_name(stem)) {
      CODECFS_ASSIGN(const std::vector<Entry> entries, source.list(group.object));
      for (const Entry& other : entries)
        if (with_suffix(other.name, suffix) == name && variable_behind(group, other)) return other;
    }
  }
  CODECFS_ASSIGN(Entry entry, source.find(group.object, name));
  // It exists under its other name.
  if (!suffix.empty() && variable_behind(group, entry)) return std::unexpected(Error{ENOENT, {}});
  return entry;
}

void ArrayNames::show(const Node& group, OpenDirectory& directory) {
  std::vector<Entry> shown;
  std::vector<std::string> names;
  std::unordered_set<std::string> taken;
  std::vector<const Entry*> others;
  for (Entry& entry : directory.entries) {
    const std::optional<ObjectId> variable = variable_behind(group, entry);
    if (!variable) {
      others.push_back(&entry);
      continue;
    }
    // A variable that cannot be read is listed, and looking it up fails with the reason. In a folder, no dataset is
    // opened for the listing.
    if (group.kind != NodeKind::folder) {
      const Result<ArrayFile> file = array_of(mount_.dataset, group.view, *variable);
      if (!file && file.error().code == EOPNOTSUPP) continue;
    }
    names.push_back(with_suffix(entry.name, group.form().array->suffix));
    taken.insert(names.back());
    shown.push_back(std::move(entry));
  }
  for (const Entry* entry : others) {
    if (taken.contains(entry->name)) continue;  // a group "x.npy" beside a variable "x"
    names.push_back(entry->name);
    shown.push_back(*entry);
  }
  directory.entries = std::move(shown);
  directory.names = std::move(names);
}

Result<std::string> ArrayNames::link_target(const Node& link) {
  const ArrayForm& form = *link.form().array;
  if (form.suffix.empty()) return link.target;
  CODECFS_ASSIGN(const Place parent, mount_.tree.nodes.at(link.parent));
  const Entry entry{{}, EntryKind::symlink, 0, link.target};
  return variable_behind(*parent.node, entry) ? path_in(form, link.target) : link.target;
}

std::optional<ObjectId> ArrayNames::variable_behind(const Node& directory, const Entry& entry) {
  if (entry.kind == EntryKind::variable) return entry.object;
  if (entry.kind != EntryKind::symlink) return std::nullopt;
  std::vector<ObjectId> groups;  // from the root to where the link has led by now
  for (const Node* at = &directory;;) {
    if (at->kind != NodeKind::group && at->kind != NodeKind::folder) return std::nullopt;
    groups.insert(groups.begin(), at->object);
    if (at->is_root()) break;
    const Result<Place> parent = mount_.tree.nodes.at(at->parent);
    if (!parent) return std::nullopt;
    at = parent->node;
  }
  std::string rest = entry.target;
  if (rest.starts_with('/')) return std::nullopt;
  for (unsigned links = 0; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string part = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      groups.pop_back();
      if (groups.empty()) return std::nullopt;  // leaves the dataset
      continue;
    }
    const Result<Entry> found = mount_.dataset.source().find(groups.back(), part);
    if (!found) return std::nullopt;
    if (found->kind == EntryKind::variable) return rest.empty() ? std::optional(found->object) : std::nullopt;
    if (found->kind == EntryKind::symlink) {
      if (++links > kMaxLinks || found->target.starts_with('/')) return std::nullopt;
      rest = rest.empty() ? found->target : found->target + "/" + rest;
    } else if (found->kind == EntryKind::group || found->kind == EntryKind::folder) {
      groups.push_back(found->object);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace codecfs::fs
