#include "fs/context/name_policy.h"

#include "fs/nodes/staged_names.h"
#include "model/chunk_directories.h"

namespace codecfs::fs {
Result<Place> NamePolicy::changeable_directory(Ino ino, std::string_view new_name) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  if (mount_.options.read_only) return fail(EROFS, "{}: this mount is read-only", place.node->path);
  const bool is_directory = place.file == FileKind::itself || place.file == FileKind::chunk_directory;
  if (!is_directory) return fail(ENOTDIR, "{}: not a directory", place.node->path);
  const View view = place.node->view;
  if (const Result<> named = check_name(view, mount_.path_of(view) + mount_.path_of(place), new_name); !named) {
    if (place.node->kind == NodeKind::group && !form_of(view).format().has_chunk_directories)
      mount_.tree.overlay.change(*place.node, [](DirectoryState& state) { state.refused_v3 = true; });
    return std::unexpected(named.error());
  }
  if (place.node->kind == NodeKind::folder || place.node->kind == NodeKind::file)
    return fail(EPERM, "{}: a folder is only read, but for what is in its datasets; change it where it lies",
                place.node->is_root() ? "/" : place.node->path);
  if (place.node->kind == NodeKind::control || place.node->kind == NodeKind::views)
    return fail(EPERM, "{}: is only read", place.node->path);
  if (place.node->form().array != nullptr)
    return fail(EPERM, "{}: in the {} view there is what the dataset has; make, move and remove it in another view",
                mount_.path_of(place.node->view) + place.node->path, name_of(place.node->view));
  return place;
}

Result<> NamePolicy::may_stage(const Place& directory, std::string_view name) {
  const Node& node = *directory.node;
  if (is_nczarr_file(name)) return {};
  const bool has_chunk_directories = node.form().format().has_chunk_directories;
  const bool is_chunk = has_chunk_directories ? name == "c" || is_spooled_chunk(node, name) : looks_like_chunk(name);
  const bool before_array = is_chunk || name == name_of(FileKind::filter) || name == name_of(FileKind::codecs);
  if (node.kind == NodeKind::group && before_array) {
    // It stays a scratch file until a .zarray or zarr.json makes this group (or one above, of Zarr v3) a variable.
    const auto never = [&](std::string_view why) {
      return fail(EINVAL, "{}/{}: is the name of a file of an array, but {}", node.path, name, why);
    };
    if (is_dataset_root(node)) return never("the root of the dataset is a group");
    if (!has_chunk_directories && is_below_v3_array(node))
      return never("this is a chunk directory of Zarr format 3, and this view is of format 2");
    CODECFS_ASSIGN(const std::vector<Entry> members, mount_.dataset.source().list(node.object));
    // The directories of its chunks may come first, which are groups so far.
    const bool is_for_chunks = has_chunk_directories && members.size() == 1 && members.front().name == "c" &&
                               mount_.tree.overlay.state_of(node).made_here;
    if (!members.empty() && !is_for_chunks) return never("this group has members and cannot become one");
    return {};
  }
  if (is_temporary_name(name) || is_temporary_path(node.path)) return {};
  return fail(
      EINVAL,
      "{}/{}: is neither a chunk nor metadata, so it cannot be stored; only names of temporary files (\".NAME\", "
      "\"NAME~\", \"NAME.tmp\", \"NAME.partial\") are accepted, until they are renamed",
      mount_.path_of(directory), name);
}

bool NamePolicy::is_dataset_root(const Node& node) const {
  if (node.is_root()) return true;
  const Result<Place> parent = mount_.tree.nodes.at(node.parent);
  return parent && parent->node->kind == NodeKind::folder;
}

bool NamePolicy::is_spooled_chunk(const Node& node, std::string_view name) const {
  if (!parse_coordinate(name)) return false;
  for (const Node* at = &node; !at->is_root() && mount_.tree.overlay.state_of(*at).made_here;) {
    const std::string_view own = std::string_view(at->path).substr(at->path.rfind('/') + 1);
    if (own == "c") return true;
    const Result<Place> parent = mount_.tree.nodes.at(at->parent);
    if (!parse_coordinate(own) || !parent) return false;
    at = parent->node;
  }
  return false;
}

bool NamePolicy::is_below_v3_array(const Node& node) const {
  for (const Node* at = &node; !at->is_root();) {
    const Result<Place> parent = mount_.tree.nodes.at(at->parent);
    if (!parent) return false;
    if (at->path.ends_with("/c") && mount_.tree.overlay.state_of(*parent->node).refused_v3) return true;
    at = parent->node;
  }
  return false;
}

}  // namespace codecfs::fs
