#include "fs/namespace/tree_changes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"
#include "fs/nodes/metadata_files.h"
#include "fs/nodes/staged_names.h"
#include "fs/views/shown_chunks.h"

namespace codecfs::fs {
namespace {

/// After its metadata was to be removed, the chunks of a variable are kept for so long.
constexpr std::chrono::minutes kKept{10};

}  // namespace

Result<struct stat> TreeChanges::make_directory(Ino parent, std::string_view name) {
  ChangedNames names(mount_, notifier_);
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Place directory, policy_.changeable_directory(parent, name));
  const Node* node = directory.node;
  if (node->kind == NodeKind::variable) return make_chunk_directory(directory, parent, name);
  if (name == "c" && !node->form().format().has_chunk_directories && mount_.tree.overlay.state_of(*node).refused_v3)
    return fail(EINVAL, "{}/{}: is a chunk directory of Zarr format 3, and this view is of format 2", node->path, name);
  if (metadata_named(directory, name))
    return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if ((parent == kRootIno && name == ".codecfs") || mount_.tree.scratch.find(parent, name))
    return fail(EEXIST, "{}/{}: exists", node->path, name);
  const Node* group = nullptr;
  {
    const SharedLock naming(mount_.tree.names);
    if (mount_.tree.is_still(parent, directory)) {
      CODECFS_ASSIGN(const Entry entry, mount_.dataset.source().make_group(node->object, name));
      CODECFS_ASSIGN(group, mount_.tree.nodes.child(*node, entry));
      // cp creates files in a directory that it has created, and fails if they exist already.
      mount_.tree.overlay.add_fresh(*group, !mount_.options.coherent);
      mount_.tree.overlay.note_made(*node);
    }
  }
  if (group == nullptr) {  // it became an array: mkdir makes a directory of chunks
    CODECFS_ASSIGN(const Place array, policy_.changeable_directory(parent, name));
    return make_chunk_directory(array, parent, name);
  }
  mount_.chunks.write_back.note_change();
  names.add(*node, name);
  mount_.tree.times.set(group->ino(), now(), now());
  notifier_.metadata_changed(*node, false);
  return names_.attributes(group->ino());
}

Result<> TreeChanges::remove_directory(Ino parent, std::string_view name) {
  ChangedNames names(mount_, notifier_);
  const LockGuard alone(mount_.tree.layout);
  CODECFS_ASSIGN(const Place directory, policy_.changeable_directory(parent));
  const Node* node = directory.node;
  CODECFS_ASSIGN(const struct stat there, names_.find(parent, name));
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(there.st_ino));
  const Node& child = *place.node;
  if (!S_ISDIR(there.st_mode)) return fail(ENOTDIR, "{}/{}: is no directory", mount_.path_of(directory), name);
  if (place.file == FileKind::chunk_directory) return remove_chunk_directory(place);
  if (child.kind == NodeKind::control) return fail(EPERM, "{}: cannot be removed", child.path);
  if (mount_.options.nodelete)
    return fail(EPERM, "{}: with -o nodelete no variables and groups are removed", child.path);
  CODECFS_TRY(mount_.recodings.check_idle(child.object, child.path));
  for (const Node* shown : mount_.tree.nodes.in_all_views(child))
    if (!mount_.tree.scratch.list(shown->ino()).empty()) return fail(ENOTEMPTY, "{}: has files", child.path);
  if (child.kind == NodeKind::variable) {
    CODECFS_TRY(has_no_files(child));
    CODECFS_TRY(may_remove_variable(child));
    // It may have another name in the source, and live on there. What cannot be stored does not keep it from going.
    (void)mount_.chunks.write_back.pause(child.object);
    CODECFS_ASSIGN(const WriteBack::Pause pause, mount_.chunks.write_back.pause_without_storing(child.object));
    CODECFS_TRY(remove_entry(*node, name, child));
    mount_.chunks.write_back.forget(child.object);
  } else {
    CODECFS_TRY(remove_entry(*node, name, child));
  }
  log::info("{}: {} removed", child.path, child.kind == NodeKind::variable ? "variable" : "group");
  mount_.tree.overlay.forget(child);
  mount_.chunks.write_back.note_change();
  names.add(*node, name);
  if (child.kind == NodeKind::variable)
    notifier_.layout_changed(*node, false);
  else
    notifier_.metadata_changed(*node, false);
  return {};
}

Result<const Node*> TreeChanges::group_for_link(Ino parent, std::string_view name) {
  CODECFS_ASSIGN(const Place directory, policy_.changeable_directory(parent, name));
  const Node* node = directory.node;
  if (node->kind == NodeKind::variable)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks and no links", mount_.path_of(directory), name);
  if (metadata_named(directory, name))
    return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if (mount_.tree.scratch.find(parent, name)) return fail(EEXIST, "{}/{}: exists", node->path, name);
  return node;
}

Result<struct stat> TreeChanges::make_link(Ino parent, std::string_view name, std::string_view target) {
  ChangedNames names(mount_, notifier_);
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Node* const node, group_for_link(parent, name));
  const Node* link = nullptr;
  {
    const SharedLock naming(mount_.tree.names);
    CODECFS_ASSIGN(const Entry entry,
                   mount_.dataset.source().make_link(node->object, name, target_from(*node, target)));
    CODECFS_ASSIGN(link, mount_.tree.nodes.child(*node, entry));
    mount_.tree.overlay.note_made(*node);
  }
  mount_.chunks.write_back.note_change();
  names.add(*node, name);
  notifier_.metadata_changed(*node, false);
  return names_.child_attributes(*link);
}

Result<> TreeChanges::restore_link(Ino parent, std::string_view name, std::string_view note) {
  ChangedNames names(mount_, notifier_);
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Node* const node, group_for_link(parent, name));
  {
    const SharedLock naming(mount_.tree.names);
    CODECFS_TRY(mount_.dataset.source().restore_link(node->object, name, note));
    mount_.tree.overlay.note_made(*node);
  }
  mount_.chunks.write_back.note_change();
  names.add(*node, name);
  notifier_.metadata_changed(*node, false);
  return {};
}

Result<struct stat> TreeChanges::make_hard_link(Ino ino, Ino parent, std::string_view name,
                                                const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place directory, policy_.changeable_directory(parent, name));
  const std::optional<FileKind> metadata = metadata_named(directory, name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_files_.named(directory, name));
  CODECFS_ASSIGN(const Place from, mount_.tree.place_of(ino));
  if (from.node->kind != NodeKind::scratch || (!metadata && !chunk))
    return fail(EPERM, "{}/{}: hard links are not possible here", mount_.path_of(directory), name);
  if (names_.find(parent, name)) return fail(EEXIST, "{}/{}: exists", mount_.path_of(directory), name);
  CODECFS_ASSIGN(const std::string content, mount_.tree.scratch.read(ino, 0, ScratchFiles::kMaxBytes));
  CODECFS_ASSIGN(const Ino made, put_content(directory, metadata, chunk, content, cancelled));
  mount_.kernel.pages.await_quiet(made);
  mount_.kernel.invalidator->content_changed(made, true);
  return names_.attributes(made);
}

Result<> TreeChanges::unlink(Ino parent, std::string_view name) {
  ChangedNames names(mount_, notifier_);
  CODECFS_ASSIGN(const Place directory, policy_.changeable_directory(parent));
  const Node* node = directory.node;
  const Result<struct stat> found = names_.find(parent, name);
  // The kernel has this chunk from before the shape changed, which has removed it. Zarr writers that have made an array
  // smaller remove the chunks behind its end by themselves, and fail if they cannot.
  if (!found && found.error().code == ENOENT && node->kind == NodeKind::variable && looks_like_chunk(name)) {
    const Result<std::optional<ChunkPlace>> chunk = chunk_files_.named(directory, name);
    if (!chunk && chunk.error().code == EINVAL) return {};
  }
  CODECFS_ASSIGN(const struct stat there, found);
  if (const std::optional<FileKind> file = metadata_named(directory, name)) {
    CODECFS_TRY(check_not_recoded(*node));
    if (mount_.options.nodelete) {
      mount_.tree.overlay.change(*node, [](DirectoryState& state) { state.kept = std::chrono::steady_clock::now(); });
      return fail(EPERM, "{}/{}: with -o nodelete no variables and groups are removed, nor their metadata", node->path,
                  name);
    }
    mount_.tree.overlay.hide(*node, *file);
    names.add(*node, name);
    return {};
  }
  CODECFS_ASSIGN(const std::optional<ScratchName> scratch, scratch_named(parent, directory, name));
  if (!scratch) return unlink(parent, name);
  if (scratch->file) {
    CODECFS_TRY(mount_.tree.scratch.unlink(scratch->directory, name));
    mount_.tree.times.set(parent, {}, now());
    return {};
  }
  if (S_ISDIR(there.st_mode)) return fail(EISDIR, "{}/{}: is a directory", mount_.path_of(directory), name);
  if (node->kind == NodeKind::group) {
    const LockGuard alone(mount_.tree.layout);
    CODECFS_ASSIGN(const Place link, mount_.tree.nodes.at(there.st_ino));
    CODECFS_TRY(remove_entry(*node, name, *link.node));
    mount_.chunks.write_back.note_change();
    names.add(*node, name);
    notifier_.metadata_changed(*node, false);
    return {};
  }
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_files_.named(directory, name));
  if (!chunk) return std::unexpected(Error{ENOENT, {}});
  CODECFS_TRY(check_not_recoded(*node));
  // rm -rf goes on after an error.
  if (mount_.options.nodelete && std::chrono::steady_clock::now() - mount_.tree.overlay.state_of(*node).kept < kKept)
    return fail(EPERM, "{}/{}: with -o nodelete chunks are not removed with their variable", node->path, name);
  if (node->form().shows_shards(*chunk->variable->facts)) {
    CODECFS_TRY(chunk_files_.remove_shard(*node, *chunk));
    mount_.tree.times.set(node->ino(), {}, now());
    mount_.tree.times.set(parent, {}, now());
    return {};
  }
  // A variable without its metadata is about to be removed with all its chunks; until then nothing is removed.
  if (is_condemned(*node, mount_.tree.overlay.state_of(*node))) {
    mount_.tree.overlay.add_unlinked(*node, chunk->number);
  } else {
    CODECFS_TRY(mount_.chunks.write_back.remove(*chunk));
    coherence_.note_removed(*chunk);
  }
  notifier_.chunk_changed(*node, chunk->number);
  names.add_chunk(*node, chunk->number);
  mount_.tree.times.set(parent, {}, now());
  return {};
}

Result<> TreeChanges::rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name, bool replace,
                             const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place from, policy_.changeable_directory(parent));
  CODECFS_ASSIGN(const Place to, policy_.changeable_directory(to_parent, to_name));
  CODECFS_ASSIGN(const std::optional<ScratchName> found, scratch_named(parent, from, name));
  if (!found) return rename(parent, name, to_parent, to_name, replace, cancelled);
  const auto& [holder, scratch] = *found;
  if (!scratch) {
    CODECFS_ASSIGN(const struct stat there, names_.find(parent, name));
    // The kernel would use the file's inode for the new name. After EXDEV, mv copies the file.
    if (S_ISREG(there.st_mode))
      return fail(EXDEV, "{}/{}: chunks and metadata cannot be renamed; copy it and remove it", mount_.path_of(from),
                  name);
    return move_entry(parent, name, to_parent, to_name);
  }
  const std::optional<FileKind> metadata = metadata_named(to, to_name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> target, chunk_files_.named(to, to_name));
  // A chunk that is replaced needs no look-up, which may be a request: its name is a file's, if it is there.
  const Result<struct stat> there =
      replace && target ? std::unexpected(Error{ENOENT, {}}) : names_.find(to_parent, to_name);
  if (there) {
    if (!replace) return fail(EEXIST, "{}/{}: exists", mount_.path_of(to), to_name);
    if (!S_ISREG(there->st_mode)) return fail(EEXIST, "{}/{}: exists, and is no file", mount_.path_of(to), to_name);
  }
  if (!metadata && !target) {
    bool is_still = false;
    {
      const SharedLock naming(mount_.tree.names);
      is_still = mount_.tree.is_still(parent, from) && mount_.tree.is_still(to_parent, to);
      if (is_still) {
        CODECFS_TRY(policy_.may_stage(to, to_name));
        CODECFS_ASSIGN(const Ino to_holder, mount_.ino_of(to));
        CODECFS_TRY(mount_.tree.scratch.rename(holder, name, to_holder, to_name));
        mount_.tree.overlay.note_made(*to.node);
      }
    }
    if (!is_still) return rename(parent, name, to_parent, to_name, replace, cancelled);
    mount_.tree.times.set(parent, {}, now());
    mount_.tree.times.set(to_parent, {}, now());
    mount_.kernel.invalidator->name_changed(to_parent, std::string(to_name), false);
    return {};
  }
  // Until the rename is done, writes to the file wait.
  CODECFS_ASSIGN(ScratchFiles::Sealed sealed, mount_.tree.scratch.seal(holder, name));
  CODECFS_ASSIGN(const Ino changed, put_content(to, metadata, target, sealed.content(), cancelled));
  const InodeTimes::Times times = mount_.tree.times.take(*scratch).value_or(InodeTimes::Times{{}, now()});
  mount_.tree.times.set(changed, times.accessed, times.modified ? times.modified : now());
  sealed.promote(changed);
  mount_.kernel.pages.await_quiet(changed);
  mount_.kernel.invalidator->content_changed(changed, true);
  // The kernel moves the inode to the new name, but the chunk keeps its own inode.
  mount_.kernel.invalidator->name_changed(to_parent, std::string(to_name), false);
  return {};
}

/// None if the directory has become another one. One step, because the temporary files of a group that becomes an array
/// move to the directories of its chunks after these are known.
Result<std::optional<TreeChanges::ScratchName>> TreeChanges::scratch_named(Ino parent, const Place& directory,
                                                                           std::string_view name) {
  const SharedLock naming(mount_.tree.names);
  if (!mount_.tree.is_still(parent, directory)) return std::nullopt;
  CODECFS_ASSIGN(const Ino holder, mount_.ino_of(directory));
  return ScratchName{holder, mount_.tree.scratch.find(holder, name)};
}

/// A temporary file is finished when it gets its name, so one that is shorter than a decoded chunk is probably encoded,
/// by a program that has the metadata of another view.
Result<> TreeChanges::check_complete(const Node& node, const ChunkPlace& chunk, uint64_t size) {
  const std::optional<uint64_t> bytes = chunk.variable->facts->chunk_bytes;
  if (node.form().is_encoded || !bytes || size >= *bytes) return {};
  return fail(EINVAL,
              "{}/{}: a file of {} bytes cannot become a chunk of {}: in this view chunks are decoded and complete. If "
              "it is encoded, write it in .codecfs/view/encoded",
              node.path, path_of_chunk(node.view, *chunk.variable->facts, chunk.number), size, *bytes);
}

/// Makes the content that of a metadata file or chunk, and returns its inode number.
Result<Ino> TreeChanges::put_content(const Place& directory, std::optional<FileKind> metadata,
                                     const std::optional<ChunkPlace>& chunk, const std::string& content,
                                     const Cancelled& cancelled) {
  const Node& node = *directory.node;
  CODECFS_TRY(check_not_recoded(node));
  mount_.tree.overlay.note_made(node);
  if (metadata) {
    CODECFS_TRY(editor_.apply(node.ino(*metadata), content, cancelled));
    return node.ino(*metadata);
  }
  CODECFS_TRY(check_complete(node, *chunk, content.size()));
  CODECFS_TRY(chunk_files_.put(node, *chunk, std::as_bytes(std::span(content)), cancelled));
  CODECFS_ASSIGN(const Ino made,
                 mount_.tree.nodes.chunk_ino(node, chunk->number, grid_of(node.view, *chunk->variable->facts).count()));
  CODECFS_TRY(mount_.still_means(*chunk));  // and so the number is that of the same chunk
  return made;
}

/// mkdir() in the directory of a variable or of chunks: those inside the grid are there already, but for a new
/// variable.
Result<struct stat> TreeChanges::make_chunk_directory(const Place& directory, Ino parent, std::string_view name) {
  const Node& node = *directory.node;
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  const Variable& facts = *view->facts;
  const NamedChunk named = chunk_named(directory, facts, name);
  const std::string path = mount_.path_of(directory);
  if (named.chunk || (named.directory && names_.find(parent, name))) return fail(EEXIST, "{}/{}: exists", path, name);
  if (named.directory) {
    mount_.tree.overlay.note_made(node);
    mount_.tree.overlay.add_made(node, *named.directory);
    mount_.tree.times.set(parent, {}, now());
    return names_.find(parent, name);
  }
  if (has_directories(node.view, facts) && looks_like_chunk(name))
    return fail(EINVAL, "{}/{}: no chunk of this array, which has {} chunks with names of Zarr v3 (c/0/1)", path, name,
                fmt::join(grid_of(node.view, facts).cells(), " x "));
  return fail(EPERM, "{}/{}: a variable's directory holds chunks and no directories", path, name);
}

/// rmdir() of a directory of chunks succeeds when it shows nothing; its name stays valid.
Result<> TreeChanges::remove_chunk_directory(const Place& directory) {
  const Node& node = *directory.node;
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  CODECFS_ASSIGN(const bool has_files, shows_anything(mount_, coherence_, node, *view, directory.chunk));
  if (has_files) return fail(ENOTEMPTY, "{}: has files", mount_.path_of(directory));
  mount_.tree.overlay.forget_made(node, directory.chunk);
  return {};
}

Result<> TreeChanges::move_entry(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name) {
  ChangedNames names(mount_, notifier_);
  const LockGuard alone(mount_.tree.layout);
  CODECFS_ASSIGN(const Place from_place, mount_.tree.nodes.at(parent));
  CODECFS_ASSIGN(const Place to_place, mount_.tree.nodes.at(to_parent));
  const Node& from = *from_place.node;
  const Node& to = *to_place.node;
  if (from.kind != NodeKind::group) return fail(EPERM, "{}/{}: cannot be renamed", from.path, name);
  if (from.view != to.view) return fail(EXDEV, "{}/{}: is moved within one view; it moves in all", from.path, name);
  if (to.kind != NodeKind::group)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks alone", to.path, to_name);
  if (metadata_named(to_place, to_name)) return fail(EINVAL, "{}/{}: is the name of a metadata file", to.path, to_name);
  CODECFS_ASSIGN(const struct stat there, names_.find(from.ino(), name));
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(there.st_ino));
  if (const Result<struct stat> other = names_.find(to.ino(), to_name)) {
    // A link takes the place of a link (ln -sf).
    if (!S_ISLNK(other->st_mode) || !S_ISLNK(there.st_mode))
      return fail(EEXIST, "{}/{}: exists; remove it first", to.path, to_name);
    if (other->st_ino == there.st_ino) return {};
    CODECFS_ASSIGN(const Place link, mount_.tree.nodes.at(other->st_ino));
    CODECFS_TRY(remove_entry(to, to_name, *link.node));
  }
  if (place.node->kind == NodeKind::control) return fail(EPERM, "{}: cannot be renamed", place.node->path);
  CODECFS_TRY(mount_.recodings.check_idle(place.node->object, place.node->path));
  {
    const LockGuard naming(mount_.tree.names);
    CODECFS_TRY(mount_.dataset.source().rename(from.object, name, to.object, to_name));
    mount_.tree.nodes.move(*place.node, to, to_name);
    mount_.tree.overlay.note_made(to);
    mount_.dataset.forget(from.object);
  }
  names.add(from, name);
  names.add(to, to_name);
  mount_.chunks.write_back.note_change();
  // Dimension names may have changed with the place.
  if (const Result<Place> moved = mount_.tree.nodes.at(there.st_ino)) notifier_.metadata_changed(*moved->node, false);
  notifier_.metadata_changed(from, false);
  notifier_.layout_changed(to, false);
  return {};
}

/// EBUSY while the variable of a directory is re-encoded: no request waits for that but READ, WRITE and SETXATTR.
Result<> TreeChanges::check_not_recoded(const Node& directory) const {
  if (directory.kind != NodeKind::variable) return {};
  return mount_.recodings.check_idle(directory.object, directory.path);
}

/// Removes it from the source and from the caches.
Result<> TreeChanges::remove_entry(const Node& directory, std::string_view name, const Node& entry) {
  const LockGuard naming(mount_.tree.names);
  CODECFS_TRY(mount_.dataset.source().remove(directory.object, name));
  mount_.tree.nodes.remove(entry);
  mount_.dataset.forget(entry.object);
  return {};
}

/// ENOTEMPTY while a directory of chunks has a temporary file.
Result<> TreeChanges::has_no_files(const Node& variable) {
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(variable.object));
  for (const Node* shown : mount_.tree.nodes.in_all_views(variable)) {
    if (!has_directories(shown->view, *view->facts)) continue;
    const uint64_t count = ChunkDirectories(grid_of(shown->view, *view->facts)).count();
    const Result<Ino> top = mount_.tree.nodes.directory_ino(*shown, 0, count);
    if (top && !mount_.tree.scratch.directories_within(*top, count).empty())
      return fail(ENOTEMPTY, "{}: has files", variable.path);
  }
  return {};
}

/// ENOTEMPTY while its directory shows chunks.
Result<> TreeChanges::may_remove_variable(const Node& node) {
  const auto not_empty = [&] {
    return fail(ENOTEMPTY, "{}: has chunks; remove it with all of them (rm -r)", node.path);
  };
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  const DirectoryState state = mount_.tree.overlay.state_of(node);
  const bool condemned = is_condemned(node, state);
  // Files that are only shown need not be removed one by one.
  if (!condemned && mount_.shows_absent(node, *view) && view->facts->grid.count() > 0) return not_empty();
  const WriteBack::Changes changes = coherence_.changes_of(node);
  const auto is_shown = [&](uint64_t number) {
    return !changes.removed.contains(number) && !(condemned && mount_.tree.overlay.is_unlinked(node, number));
  };
  if (std::ranges::any_of(changes.written, is_shown)) return not_empty();
  constexpr size_t kBatch = 1024;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers,
                   mount_.dataset.source().stored_chunks(node.object, from, kBatch));
    if (std::ranges::any_of(numbers, is_shown)) return not_empty();
    if (numbers.size() < kBatch) return {};
    from = numbers.back() + 1;
  }
}

/// The target of a link as the source stores it: an absolute path below the mount point becomes relative, because it
/// would lead nowhere when the source is opened otherwise.
std::string TreeChanges::target_from(const Node& directory, std::string_view target) const {
  const std::string top = mount_.options.mountpoint + mount_.path_of(directory.view);
  const bool is_below = target.starts_with(top) && (target.size() == top.size() || target[top.size()] == '/');
  if (!is_below || mount_.options.mountpoint.empty()) return std::string(target);
  const std::filesystem::path path = "/" + std::string(target.substr(top.size()));
  return path.lexically_normal().lexically_relative(directory.path.empty() ? "/" : directory.path);
}

}  // namespace codecfs::fs
