#include "fs/namespace/namespace.h"

#include <algorithm>

#include "base/mutex.h"
#include "fs/nodes/chunk_names.h"
#include "fs/views/shown_chunks.h"

namespace codecfs::fs {
Result<struct stat> Namespace::lookup(Ino parent, std::string_view name) {
  ++mount_.stats.lookups;
  CODECFS_ASSIGN(const Place place, coherence_.current_place_of(parent));
  const Node& node = *place.node;
  if (place.file == FileKind::chunk_directory) return lookup_chunk(parent, place, name);
  if (place.file != FileKind::itself || node.kind == NodeKind::file)
    return fail(ENOTDIR, "{}: not a directory", node.path);
  if (const std::optional<FileKind> file = metadata_named(place, name)) return metadata_.looked_up(node, *file);
  if (node.kind == NodeKind::control) return name == "view" ? attributes(mount_.tree.nodes.views().ino()) : not_there();
  if (node.kind == NodeKind::views) {
    const std::optional<View> view = view_named(name);
    return view ? attributes(mount_.tree.nodes.view_entry(*view).ino()) : not_there();
  }
  if (parent == kRootIno && name == ".codecfs") return attributes(mount_.tree.nodes.control().ino());

  if (node.kind == NodeKind::variable && node.form().array == nullptr) return lookup_chunk(parent, place, name);
  if (const std::optional<Ino> scratch = mount_.tree.scratch.find(node.ino(), name)) return attributes(*scratch);
  if (node.kind == NodeKind::variable) return not_there();
  const Node* child = nullptr;
  {
    const SharedLock names(mount_.tree.names);
    if (mount_.tree.is_still(parent, place)) {
      CODECFS_ASSIGN(const Entry entry, node.form().array != nullptr ? array_names_.find(node, name)
                                                                     : mount_.dataset.source().find(node.object, name));
      CODECFS_ASSIGN(child, mount_.tree.nodes.child(node, entry));
    }
  }
  return child != nullptr ? child_attributes(*child) : lookup(parent, name);
}

/// ESTALE if there is no such variable any more: an absent chunk would be read as fill.
Result<VariableViewPtr> Namespace::variable_of(const Node& node) {
  Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  if (!view && view.error().code == ENOENT) view.error().code = ESTALE;
  return view;
}

/// A name in the directory of a variable or of chunks.
Result<struct stat> Namespace::lookup_chunk(Ino parent, const Place& directory, std::string_view name) {
  const Node& node = *directory.node;
  CODECFS_ASSIGN(const VariableViewPtr view, variable_of(node));
  const Variable& facts = *view->facts;
  const NamedChunk named = chunk_named(directory, facts, name);
  if (named.chunk) return chunk_files_.attributes(node, view, *named.chunk);
  Ino ino = node.ino();
  if (named.directory) {
    if (mount_.tree.overlay.state_of(node).fresh && !mount_.tree.overlay.is_made(node, *named.directory)) {
      CODECFS_ASSIGN(const bool is_there, shows_anything(mount_, coherence_, node, *view, *named.directory));
      if (!is_there) return not_there();
    }
    CODECFS_ASSIGN(ino, mount_.tree.nodes.directory_ino(node, *named.directory,
                                                        ChunkDirectories(grid_of(node.view, facts)).count()));
    return inodes_.make(node, ino, S_IFDIR, 0);
  }
  bool is_still = false;
  std::optional<Ino> scratch;
  {
    const SharedLock names(mount_.tree.names);
    is_still = mount_.tree.is_still(parent, directory);
    if (is_still) {
      CODECFS_ASSIGN(ino, mount_.ino_of(directory));
      scratch = mount_.tree.scratch.find(ino, name);
    }
  }
  if (!is_still) return lookup(parent, name);
  return scratch ? attributes(*scratch) : not_there();
}

Result<struct stat> Namespace::attributes(Ino ino) {
  CODECFS_ASSIGN(const Place place, coherence_.current_place_of(ino));
  const Node& node = *place.node;
  if (node.kind == NodeKind::scratch) return inodes_.of_scratch(ino);
  if (place.file == FileKind::chunk) {
    CODECFS_ASSIGN(const VariableViewPtr view, variable_of(node));
    Result<struct stat> status = chunk_files_.attributes(node, view, place.chunk);
    // Otherwise they may be those of the chunk that has this number in another shape.
    if (status) CODECFS_TRY(mount_.tree.place_of(ino));
    return status;
  }
  if (place.file == FileKind::chunk_directory) return inodes_.make(node, ino, S_IFDIR, 0);
  if (place.file == FileKind::unknown) return inodes_.make(node, ino, S_IFREG, 1);
  if (place.file != FileKind::itself) return metadata_.attributes(node, place.file);
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) return inodes_.of_plain(node);
  if (node.kind == NodeKind::symlink) {
    CODECFS_ASSIGN(const std::string target, link_target(ino));
    return inodes_.make(node, ino, S_IFLNK, target.size());
  }
  return inodes_.make(node, ino, S_IFDIR, 0);
}

std::optional<struct stat> Namespace::known(Ino parent, std::string_view name) {
  const Result<Place> place = mount_.tree.place_of(parent);
  if (!place) return std::nullopt;
  const Node& node = *place->node;
  if (const std::optional<FileKind> file = metadata_named(*place, name)) return known(node.ino(*file));
  if (node.form().array != nullptr) return std::nullopt;
  if (node.kind == NodeKind::variable) {
    const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
    if (!view) return known(node.ino(FileKind::unknown));
    const NamedChunk named = chunk_named(*place, *(*view)->facts, name);
    if (named.chunk) return chunk_files_.known(node, *view, *named.chunk);
    if (!named.directory) return std::nullopt;
    const uint64_t count = ChunkDirectories(grid_of(node.view, *(*view)->facts)).count();
    const Result<Ino> ino = mount_.tree.nodes.directory_ino(node, *named.directory, count);
    return ino ? known(*ino) : std::nullopt;
  }
  if (node.kind != NodeKind::group && node.kind != NodeKind::folder) return std::nullopt;
  const Node* const child = mount_.tree.nodes.known_child(node, name);
  return child != nullptr ? known(child->ino()) : std::nullopt;
}

std::optional<struct stat> Namespace::known(Ino ino) {
  const Result<Place> place = mount_.tree.place_of(ino);
  if (!place) return std::nullopt;
  const Node& node = *place->node;
  if (node.kind == NodeKind::scratch || node.kind == NodeKind::symlink || node.form().array != nullptr)
    return std::nullopt;
  if (place->file == FileKind::chunk) {
    const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
    if (!view) return inodes_.make(node, ino, S_IFREG, 1);
    return chunk_files_.known(node, *view, place->chunk);
  }
  const bool is_directory =
      place->file == FileKind::chunk_directory || (place->file == FileKind::itself && node.kind != NodeKind::file);
  return is_directory ? inodes_.make(node, ino, S_IFDIR, 0) : inodes_.make(node, ino, S_IFREG, 1);
}

Result<struct stat> Namespace::find(Ino parent, std::string_view name) {
  Result<struct stat> status = lookup(parent, name);
  if (status || !hides(status.error())) return status;
  const auto instead = known(parent, name);
  if (!instead) return status;
  const Result<Place> place = mount_.tree.nodes.at(instead->st_ino);
  return place && place->file != FileKind::unknown ? Result<struct stat>(*instead) : status;
}

Result<struct stat> Namespace::found(Ino ino) {
  Result<struct stat> status = attributes(ino);
  if (status || !hides(status.error())) return status;
  const auto instead = known(ino);
  return instead ? Result<struct stat>(*instead) : status;
}

Result<struct stat> Namespace::child_attributes(const Node& child) {
  if (child.kind == NodeKind::variable && child.form().array != nullptr) return arrays_.attributes(child);
  return attributes(child.ino());
}

Result<std::string> Namespace::link_target(Ino ino) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  if (place.node->kind != NodeKind::symlink) return fail(EINVAL, "{}: not a symlink", place.node->path);
  return place.node->form().array != nullptr ? array_names_.link_target(*place.node) : place.node->target;
}

bool Namespace::remembers_absence(Ino parent, std::string_view name) {
  const Result<Place> place = mount_.tree.nodes.at(parent);
  if (mount_.options.coherent || (place && place->node->kind == NodeKind::folder)) return false;
  if (mount_.options.read_only) return true;
  if (!place || metadata_named(*place, name)) return false;
  // A name that is created in one view is invalidated in the others, but not where the kernel knows it as absent.
  if (place->node->view != mount_.tree.nodes.shown()) return false;
  // A group may become a variable, which has files of its own.
  for (const FileKind file : {FileKind::zarray, FileKind::zattrs, FileKind::filter, FileKind::codecs})
    if (name == name_of(file)) return false;
  const bool is_v3 = place->node->form().format().has_chunk_directories;
  if (is_v3 && name == "c") return false;
  // A chunk may come into being with a .zarray or another shape, and be shown without being written.
  const bool like_chunk = name.find_first_not_of("0123456789.") == name.npos || (is_v3 && name.starts_with("c."));
  if (!like_chunk) return true;
  if (place->node->kind != NodeKind::variable || mount_.tree.overlay.state_of(*place->node).fresh) return false;
  const Result<VariableViewPtr> view = mount_.dataset.variable(place->node->object);
  if (!view || ((*view)->shows_absent_chunks() && !is_v3)) return false;
  // A shard comes into being with any of its chunks.
  if (place->node->form().shows_shards(*(*view)->facts)) return false;
  const ChunkGrid& grid = (*view)->facts->grid;
  const std::optional<uint64_t> number = chunk_named(*place, *(*view)->facts, name).chunk;
  // Not before the shape changes; but then mkdir -p must find the directories of new chunks at once.
  if (!number) return !is_v3;
  const Result<Ino> ino = mount_.tree.nodes.chunk_ino(*place->node, *number, grid.count());
  const Result<Ino> key = mount_.tree.nodes.chunk_key(*place->node, *number, grid.count());
  if (!ino || !key) return false;
  mount_.kernel.absent_chunks.add(*ino);
  return !mount_.chunks.write_back.size(*key);  // it may have been written since it was looked up
}

}  // namespace codecfs::fs
