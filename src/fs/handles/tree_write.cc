// Writing files. Chunks are written, created, removed and replaced by rename. Metadata files are staged until they are
// closed, and then applied (namespace/tree_change.cc). All other files are scratch files.

#include <fcntl.h>
#include <fmt/format.h>

#include "base/log.h"
#include "fs/namespace/clock.h"
#include "fs/namespace/staged_names.h"
#include "fs/namespace/tree.h"

namespace codecfs::fs {

Result<const Node*> Tree::changeable_directory(Ino ino, std::string_view new_name) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", place.node->path);
  if (place.file != FileKind::itself) return fail(ENOTDIR, "{}: not a directory", place.node->path);
  if (const Result<> named = check_name(path_of(place.node->view) + place.node->path, new_name); !named) {
    if (place.node->kind == NodeKind::group)
      overlay_.change(*place.node, [](DirectoryState& state) { state.refused_v3 = true; });
    return std::unexpected(named.error());
  }
  if (place.node->kind == NodeKind::folder || place.node->kind == NodeKind::file)
    return fail(EPERM, "{}: a folder is only read, but for what is in its datasets; change it where it lies",
                place.node->is_root() ? "/" : place.node->path);
  if (place.node->kind == NodeKind::control || place.node->kind == NodeKind::views)
    return fail(EPERM, "{}: is only read", place.node->path);
  if (shows_arrays(place.node->view))
    return fail(EPERM, "{}: in the {} view there is what the dataset has; make, move and remove it in another view",
                path_of(place.node->view) + place.node->path, name_of(place.node->view));
  return place.node;
}

Result<std::optional<ChunkPlace>> Tree::chunk_named(const Node& node, std::string_view name) {
  if (node.kind != NodeKind::variable) return std::optional<ChunkPlace>();
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const ChunkGrid& grid = view->facts->grid;
  const std::optional<uint64_t> number = grid.number_of(name);
  if (number) {
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(node, *number, grid.count()));
    return ChunkPlace{key, node.object, *number, view};
  }
  if (looks_like_chunk(name))
    return fail(EINVAL, "{}/{}: no chunk of this array, which has {} chunks", node.path, name,
                fmt::join(grid.cells(), " x "));
  return std::optional<ChunkPlace>();
}

Result<> Tree::may_stage(const Node& node, std::string_view name) {
  if (is_nczarr_file(name)) return {};
  const bool before_array =
      looks_like_chunk(name) || name == name_of(FileKind::filter) || name == name_of(FileKind::codecs);
  if (node.kind == NodeKind::group && before_array) {
    // It stays a scratch file until a .zarray makes this group a variable.
    const auto never = [&](std::string_view why) {
      return fail(EINVAL, "{}/{}: is the name of a file of an array, but {}", node.path, name, why);
    };
    if (is_dataset_root(node)) return never("the root of the dataset is a group");
    if (is_below_v3_array(node))
      return never("this is a chunk directory of Zarr format 3, which this mount does not store");
    CODECFS_ASSIGN(const std::vector<Entry> members, dataset_.source().list(node.object));
    if (!members.empty()) return never("this group has members and cannot become one");
    return {};
  }
  if (is_temporary_name(name) || is_temporary_path(node.path)) return {};
  return fail(
      EINVAL,
      "{}/{}: is neither a chunk nor metadata, so it cannot be stored; only names of temporary files (\".NAME\", "
      "\"NAME~\", \"NAME.tmp\", \"NAME.partial\") are accepted, until they are renamed",
      node.path, name);
}

bool Tree::is_dataset_root(const Node& node) const {
  if (node.is_root()) return true;
  const Result<Place> parent = nodes_.at(node.parent);
  return parent && parent->node->kind == NodeKind::folder;
}

bool Tree::is_below_v3_array(const Node& node) const {
  for (const Node* at = &node; !at->is_root();) {
    const Result<Place> parent = nodes_.at(at->parent);
    if (!parent) return false;
    if (at->path.ends_with("/c") && overlay_.state_of(*parent->node).refused_v3) return true;
    at = parent->node;
  }
  return false;
}

Result<> Tree::make_hard_link(Ino parent, std::string_view name) {
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent, name));
  return fail(EPERM, "{}/{}: hard links are not possible here", node->path, name);
}

Result<Tree::Created> Tree::create_metadata(const Node& node, FileKind file) {
  if (!overlay_.state_of(node).hidden.contains(file) && (node.kind == NodeKind::variable || file != FileKind::zarray))
    return fail(EEXIST, "{}: exists", node.path);
  overlay_.note_made(node);
  Created created;
  created.file = std::make_unique<OpenFile>();
  created.file->writer = true;
  created.file->staged = staged_files_.open(node.ino(file), "", true);
  created.status = make_attributes(node, node.ino(file), S_IFREG, created.file->staged->shown_size().value_or(0));
  return created;
}

Result<Tree::Created> Tree::create(Ino parent, std::string_view name, mode_t permissions, int flags,
                                   const Cancelled& cancelled) {
  ++stats_.opens;
  CODECFS_ASSIGN(Created created, create_file(parent, name, permissions, flags, cancelled));
  created.file->pages = KernelPages::Writer(kernel_pages_, created.status.st_ino);
  return created;
}

Result<Tree::Created> Tree::create_file(Ino parent, std::string_view name, mode_t permissions, int flags,
                                        const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent, name));
  if (const std::optional<FileKind> file = metadata_named(*node, name)) return create_metadata(*node, *file);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_named(*node, name));
  if (!chunk) CODECFS_TRY(may_stage(*node, name));
  overlay_.note_made(*node);
  Created created;
  created.file = std::make_unique<OpenFile>();
  created.file->writer = true;
  if (!chunk) {
    if (node->kind == NodeKind::variable) CODECFS_TRY(dataset_.source().variable_writable(node->object));
    CODECFS_ASSIGN(const Ino ino, scratch_.create(node->ino(), name, permissions));
    times_.set(parent, {}, now());
    created.file->scratch = ino;
    CODECFS_ASSIGN(created.status, attributes(ino));
    return created;
  }
  if (node->view == View::encoded) return create_encoded(*node, *chunk);
  CODECFS_TRY(apply_rules(*chunk, cancelled));
  // Without O_EXCL and O_TRUNC (dd conv=notrunc) the writer changes a part of a chunk that held fill.
  const bool is_part = (flags & (O_EXCL | O_TRUNC)) == 0;
  // The kernel looked it up as absent, but it may have been written through another view since.
  CODECFS_ASSIGN(const bool is_new, write_back_.create(*chunk, is_part));
  const bool is_there = !is_new && !overlay_.is_unlinked(*node, chunk->number);
  if (is_there && (flags & O_EXCL) != 0) return fail(EEXIST, "{}/{}: exists", node->path, name);
  if (!is_new && (!is_there || (flags & O_TRUNC) != 0)) CODECFS_TRY(write_back_.resize(*chunk, 0, is_part));
  overlay_.forget_unlinked(*node, chunk->number);
  chunk_changed(*node, chunk->number);
  write_back_.open_writer(chunk->key);
  times_.set(chunk->key, {}, now());
  times_.set(parent, {}, now());
  created.file->chunk = *chunk;
  Result<struct stat> status = attributes(chunk->key);
  if (!status) {
    (void)close(*created.file);
    return pass_on(status);
  }
  created.status = *status;
  return created;
}

Result<ChunkPlace> Tree::chunk_of(const OpenFile& file) {
  if (file.scratch == 0) {
    // The variable may have been removed or reshaped since the open.
    if (file.chunk.variable != nullptr) CODECFS_TRY(nodes_.at(file.chunk.key));
    return file.chunk;
  }
  CODECFS_ASSIGN(const Place place, place_of(file.scratch));
  ChunkPlace chunk;
  if (place.node->kind == NodeKind::scratch || place.file != FileKind::chunk) return chunk;
  if (place.node->view == View::encoded)
    return fail(ESTALE, "{}: was renamed to an encoded chunk; open it under that name", place.node->path);
  return chunk_place(*place.node, place.chunk);
}

Result<size_t> Tree::write(const OpenFile& file, off_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                           const Cancelled& cancelled) {
  if (written_back != nullptr && !written_back->any && !file.array) {
    const bool made = file.chunk.variable != nullptr && is_made_by_unchanged(file.chunk).value_or(false);
    if (!made) return bytes.size();
  }
  const Bytes mask = written_back != nullptr ? Bytes(written_back->changed) : Bytes();
  if (file.staged) {
    CODECFS_TRY(file.staged->write(static_cast<uint64_t>(offset), bytes));
    return bytes.size();
  }
  if (file.scratch != 0) {
    CODECFS_ASSIGN(const bool still, scratch_.write(file.scratch, static_cast<uint64_t>(offset), bytes));
    if (still) return bytes.size();
  }
  if (file.array) return write_array(*file.array, static_cast<uint64_t>(offset), bytes, written_back, cancelled);
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) return fail(EBADF, "not open for writing");
  CODECFS_TRY(apply_rules(chunk, cancelled));
  CODECFS_ASSIGN(const size_t written, write_back_.write(chunk, static_cast<uint64_t>(offset), bytes, mask));
  times_.set(chunk.key, {}, now());
  CODECFS_ASSIGN(const Place place, nodes_.at(chunk.key));
  chunk_changed(*place.node, chunk.number, file.scratch);
  return written;
}

/// Tells the kernel that the file of an inode number is gone.
void Tree::kernel_name_changed(Ino ino, bool wait) {
  const Result<Place> place = nodes_.at(ino);
  if (!place) return;
  std::string name(name_of(place->file));
  if (place->file == FileKind::chunk) {
    const Result<VariableViewPtr> view = dataset_.variable(place->node->object);
    if (!view) return;
    name = (*view)->facts->grid.name_of(place->chunk);
  }
  kernel_->name_changed(place->node->ino(), std::move(name), wait);
}

Result<> Tree::flush(const OpenFile& file, const Cancelled& cancelled) {
  if (file.staged) {
    const bool shown = file.staged->shown_size().has_value();
    const std::optional<StagedFile::Change> change = file.staged->take_change();
    if (!shown) return {};
    const Ino ino = file.staged->ino();
    Result<> applied;
    if (change) applied = apply(ino, change->text, cancelled);
    if (!applied && applied.error().code == EINVAL && change->without_rest)
      applied = apply(ino, *change->without_rest, cancelled);
    // From now on the file shows the state of the source, or does not exist.
    kernel_->content_changed(ino, true);
    if (!attributes(ino)) kernel_name_changed(ino, true);
    return applied;
  }
  if (!file.writer) return {};
  if (file.array) {
    const Result<Place> place = nodes_.at(file.array->ino);
    return place ? write_back_.flush_variable(place->node->object) : Result<>();
  }
  const Result<ChunkPlace> chunk = chunk_of(file);
  // If it is stale now, what was written before is stored, or was removed with its variable.
  if (!chunk || chunk->variable == nullptr) return {};
  return write_back_.flush(*chunk);
}

bool Tree::close(const OpenFile& file) {
  if (file.staged) {
    if (const Result<> applied = flush(file); !applied)
      log::error("not reported to a program, because the file is closed: {}", applied.error().reason);
    file.staged->end();
    if (!attributes(file.staged->ino())) kernel_name_changed(file.staged->ino(), false);
    return true;
  }
  if (!file.writer) return false;
  if (file.array) {
    (void)write_back_.close_writer({file.array->ino, 0, 0, file.array->variable});
    if (const Result<> flushed = flush(file); !flushed)
      log::error("not reported to a program, because the file is closed: {}", flushed.error().reason);
    return false;
  }
  // Only files that were opened as a chunk count as its writers.
  const bool longer = file.scratch == 0 && write_back_.close_writer(file.chunk);
  const Result<ChunkPlace> chunk = chunk_of(file);
  if (!chunk || chunk->variable == nullptr) return false;
  if (const Result<> flushed = write_back_.flush(*chunk); !flushed)
    log::error("not reported to a program, because the file is closed: {}", flushed.error().reason);
  return longer;
}

Result<> Tree::sync(const OpenFile& file, const Cancelled& cancelled) {
  if (file.staged) {
    CODECFS_TRY(flush(file, cancelled));
    CODECFS_ASSIGN(const Place place, nodes_.at(file.staged->ino()));
    if (place.file != FileKind::chunk) return write_back_.commit();
    CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(*place.node, place.chunk));
    return write_back_.sync(chunk);
  }
  if (file.array) {
    CODECFS_ASSIGN(const Place place, nodes_.at(file.array->ino));
    return write_back_.sync_variable(place.node->object);
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) return {};  // scratch files are not stored anywhere
  return write_back_.sync(chunk);
}

Result<> Tree::sync_all() { return write_back_.sync_all(); }

Result<struct stat> Tree::change(Ino ino, const Change& change, const Cancelled& cancelled, const OpenFile* file) {
  // Its number is the file's own: `ino` may be that of a file that was renamed to it.
  CODECFS_ASSIGN(const struct stat status, attributes(ino));
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) CODECFS_TRY(changeable_directory(ino));
  const bool scratch = node.kind == NodeKind::scratch;
  if (change.permissions && scratch) {
    CODECFS_TRY(scratch_.set_permissions(ino, *change.permissions));
  } else if (change.permissions && (*change.permissions & 07777) != (status.st_mode & 07777)) {
    return fail(EPERM, "{}: permissions are those of the source", node.path);
  }
  if ((change.owner && *change.owner != status.st_uid) || (change.group && *change.group != status.st_gid))
    return fail(EPERM, "{}: the owner is that of the source", node.path);
  if (change.size && scratch) {
    CODECFS_TRY(scratch_.resize(ino, *change.size));
  } else if (const auto staged = staged_files_.find(status.st_ino); change.size && staged) {
    CODECFS_TRY(staged->resize(*change.size));
  } else if (change.size && place.file == FileKind::array) {
    CODECFS_TRY(resize_array(node, *change.size, file, cancelled));
  } else if (change.size) {
    if (place.file != FileKind::chunk)
      return fail(EINVAL, "{}: a part of a metadata file means nothing: write it as a whole", node.path);
    if (node.view == View::encoded)
      return fail(EINVAL, "{}: a part of an encoded chunk means nothing: write it as a whole", node.path);
    CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
    CODECFS_TRY(apply_rules(chunk, cancelled));
    if (static_cast<off_t>(*change.size) != status.st_size) page_copies_.give_up(ino);
    // truncate(2) without an open file has the effect of open, ftruncate and close.
    write_back_.open_writer(chunk.key);
    const Result<> resized = write_back_.resize(chunk, *change.size);
    if (resized) times_.set(chunk.key, {}, now());
    if (resized) kernel_pages_.await_quiet(status.st_ino);
    if (resized) chunk_changed(node, place.chunk);
    (void)write_back_.close_writer(chunk);
    CODECFS_TRY(resized);
    CODECFS_TRY(write_back_.flush(chunk));
  }
  if (change.accessed || change.modified) times_.set(status.st_ino, change.accessed, change.modified);
  return attributes(ino);
}

Result<> Tree::unlink(Ino parent, std::string_view name) {
  ChangedNames names(*this);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent));
  CODECFS_ASSIGN(const struct stat there, lookup(parent, name));
  if (const std::optional<FileKind> file = metadata_named(*node, name)) {
    overlay_.change(*node, [&](DirectoryState& state) { state.hidden.insert(*file); });
    names.add(*node, name);
    return {};
  }
  if (scratch_.find(node->ino(), name)) {
    CODECFS_TRY(scratch_.unlink(node->ino(), name));
    times_.set(parent, {}, now());
    return {};
  }
  if (node->kind == NodeKind::group) {
    if (S_ISDIR(there.st_mode)) return fail(EISDIR, "{}/{}: is a directory", node->path, name);
    const std::lock_guard alone(layout_);
    CODECFS_ASSIGN(const Place link, nodes_.at(there.st_ino));
    CODECFS_TRY(remove_entry(*node, name, *link.node));
    write_back_.note_change();
    names.add(*node, name);
    metadata_changed(*node, false);
    return {};
  }
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_named(*node, name));
  if (!chunk) return std::unexpected(Error{ENOENT, {}});
  // A variable without its .zarray is about to be removed with all its chunks; until then nothing is removed.
  if (is_condemned(*node, overlay_.state_of(*node))) {
    overlay_.add_unlinked(*node, chunk->number);
  } else {
    CODECFS_TRY(write_back_.remove(*chunk));
    note_removed(*chunk);
  }
  chunk_changed(*node, chunk->number);
  names.add(*node, name);
  return {};
}

Result<> Tree::rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name, bool replace,
                      const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Node* from, changeable_directory(parent));
  CODECFS_ASSIGN(const Node* to, changeable_directory(to_parent, to_name));
  const std::optional<Ino> scratch = scratch_.find(from->ino(), name);
  if (!scratch) {
    CODECFS_ASSIGN(const struct stat there, lookup(parent, name));
    // The kernel would use the file's inode for the new name. After EXDEV, mv copies the file.
    if (S_ISREG(there.st_mode))
      return fail(EXDEV, "{}/{}: chunks and metadata cannot be renamed; copy it and remove it", from->path, name);
    return move_entry(parent, name, to_parent, to_name);
  }
  const std::optional<FileKind> metadata = metadata_named(*to, to_name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> target, chunk_named(*to, to_name));
  if (const Result<struct stat> there = lookup(to->ino(), to_name)) {
    if (!replace) return fail(EEXIST, "{}/{}: exists", to->path, to_name);
    if (!S_ISREG(there->st_mode)) return fail(EEXIST, "{}/{}: exists, and is no file", to->path, to_name);
  }
  if (!metadata && !target) {
    CODECFS_TRY(may_stage(*to, to_name));
    CODECFS_TRY(scratch_.rename(from->ino(), name, to->ino(), to_name));
    times_.set(parent, {}, now());
    times_.set(to_parent, {}, now());
    kernel_->name_changed(to_parent, std::string(to_name), false);
    return {};
  }
  // Until the rename is done, writes to the file wait.
  CODECFS_ASSIGN(const std::string content, scratch_.seal(from->ino(), name));
  const Result<> replaced = metadata ? apply(to->ino(*metadata), content, cancelled)
                                     : put_chunk(*to, *target, std::as_bytes(std::span(content)), cancelled);
  if (!replaced) {
    scratch_.unseal(from->ino(), name);
    return replaced;
  }
  Ino changed = to->ino(metadata.value_or(FileKind::itself));
  if (target) {
    CODECFS_ASSIGN(changed, nodes_.chunk_ino(*to, target->number, target->variable->facts->grid.count()));
  }
  const InodeTimes::Times times = times_.take(*scratch).value_or(InodeTimes::Times{{}, now()});
  times_.set(changed, times.accessed, times.modified ? times.modified : now());
  scratch_.promote(from->ino(), name, changed);
  kernel_pages_.await_quiet(changed);
  kernel_->content_changed(changed, true);
  // The kernel moves the inode to the new name, but the chunk keeps its own inode.
  kernel_->name_changed(to_parent, std::string(to_name), false);
  return {};
}

std::vector<std::string> Tree::paths_open_for_writing() {
  std::vector<std::string> paths;
  for (const ChunkKey key : write_back_.open_writers()) {
    const Result<Place> place = place_of(key);
    if (!place) continue;
    if (place->file == FileKind::array)
      paths.push_back(path_of(place->node->view) + array_path(*place->node));
    else if (const auto view = dataset_.variable(place->node->object))
      paths.push_back(path_of(place->node->view) + place->node->path + "/" +
                      (*view)->facts->grid.name_of(place->chunk));
  }
  return paths;
}

std::vector<std::string> Tree::files_not_stored() {
  std::vector<std::string> paths;
  for (const auto& [directory, name] : scratch_.names()) {
    if (is_nczarr_file(name)) continue;
    const Result<Place> place = nodes_.at(directory);
    paths.push_back(fmt::format("{}/{}", place ? path_of(place->node->view) + place->node->path : "", name));
  }
  return paths;
}

Result<> Tree::finish() {
  const std::vector<std::string> lost = files_not_stored();
  for (const std::string& name : lost)
    log::error("{}: this file is neither a chunk nor metadata, so it is not stored: it is lost with the mount", name);
  CODECFS_TRY(write_back_.finish());
  if (!lost.empty())
    return fail(EIO, "{} file{} neither chunk nor metadata and not stored ({})", lost.size(),
                lost.size() == 1 ? " was" : "s were", lost.front());
  return {};
}

}  // namespace codecfs::fs
