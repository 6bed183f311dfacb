// What changes the tree: chunks are written, created, removed, renamed over; other files in a variable's directory are
// scratch files. Groups, variables and metadata cannot be changed in this version.

#include "base/log.h"
#include "fs/clock.h"
#include "fs/tree.h"

namespace codecfs::fs {
namespace {

/// A name that looks like that of a chunk: what is outside of the grid must not become a file that is lost at unmount.
bool looks_like_chunk(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789.") == name.npos && name[0] != '.' && name.back() != '.';
}

std::unexpected<Error> not_in_this_version(std::string_view path, std::string_view name) {
  return fail(EPERM, "{}/{}: only chunks can be written in this version", path, name);
}

}  // namespace

Result<const Node*> Tree::variable_directory(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", place.node->path);
  if (place.file != FileKind::itself) return fail(ENOTDIR, "{}: not a directory", place.node->path);
  return place.node;
}

Result<std::optional<ChunkPlace>> Tree::chunk_named(const Node& node, std::string_view name) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const ChunkGrid& grid = view->facts->grid;
  const std::optional<uint64_t> number = grid.number_of(name);
  if (number) {
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_ino(node, *number, grid.count()));
    return ChunkPlace{key, node.object, *number, view};
  }
  if (looks_like_chunk(name))
    return fail(EINVAL, "{}/{}: no chunk of this array, which has {} chunks", node.path, name,
                fmt::join(grid.cells(), " x "));
  return std::optional<ChunkPlace>();
}

Result<Tree::Created> Tree::create(Ino parent, std::string_view name, mode_t permissions) {
  ++stats_.opens;
  CODECFS_ASSIGN(const Node* node, variable_directory(parent));
  if (node->kind != NodeKind::variable) return not_in_this_version(node->path, name);
  for (const NamedFile& file : files_of(node->kind))
    if (file.name == name) return fail(EEXIST, "{}/{}: exists", node->path, name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_named(*node, name));
  Created created;
  created.file = std::make_unique<OpenFile>();
  created.file->writer = true;
  if (!chunk) {
    CODECFS_TRY(dataset_.source().variable_writable(node->object));
    CODECFS_ASSIGN(const Ino ino, scratch_.create(node->ino(), name, permissions));
    created.file->scratch = ino;
    CODECFS_ASSIGN(created.status, attributes(ino));
    return created;
  }
  CODECFS_TRY(write_back_.resize(*chunk, 0));
  write_back_.open_writer(chunk->key);
  touch(chunk->key, {}, now());
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
  if (file.scratch == 0) return file.chunk;
  CODECFS_ASSIGN(const Place place, place_of(file.scratch));
  ChunkPlace chunk;
  if (place.node->kind == NodeKind::scratch) return chunk;
  CODECFS_ASSIGN(chunk.variable, dataset_.variable(place.node->object));
  CODECFS_ASSIGN(chunk.key, nodes_.chunk_ino(*place.node, place.chunk, chunk.variable->facts->grid.count()));
  chunk.object = place.node->object;
  chunk.number = place.chunk;
  return chunk;
}

Result<size_t> Tree::write(const OpenFile& file, off_t offset, Bytes bytes) {
  if (file.scratch != 0) {
    CODECFS_ASSIGN(const bool still, scratch_.write(file.scratch, static_cast<uint64_t>(offset), bytes));
    if (still) return bytes.size();
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) return fail(EBADF, "not open for writing");
  CODECFS_ASSIGN(const size_t written, write_back_.write(chunk, static_cast<uint64_t>(offset), bytes));
  touch(chunk.key, {}, now());
  return written;
}

Result<> Tree::flush(const OpenFile& file) {
  if (!file.writer) return {};
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) return {};
  return write_back_.flush(chunk);
}

bool Tree::close(const OpenFile& file) {
  if (!file.writer) return false;
  const Result<ChunkPlace> chunk = chunk_of(file);
  if (!chunk || chunk->variable == nullptr) return false;
  // Only who was opened as a chunk was counted as its writer.
  const bool longer = file.scratch == 0 && write_back_.close_writer(*chunk);
  if (const Result<> flushed = write_back_.flush(*chunk); !flushed)
    log::error("told to nobody, as the file was closed before: {}", flushed.error().reason);
  return longer;
}

Result<> Tree::sync(const OpenFile& file) {
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) return {};  // scratch files are not stored anywhere
  return write_back_.sync(chunk);
}

Result<> Tree::sync_all() { return write_back_.sync_all(); }

Result<struct stat> Tree::change(Ino ino, const Change& change) {
  CODECFS_ASSIGN(struct stat status, attributes(ino));
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
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
  } else if (change.size) {
    if (place.file != FileKind::chunk) return fail(EPERM, "{}: metadata cannot be written in this version", node.path);
    CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_ino(node, place.chunk, view->facts->grid.count()));
    const ChunkPlace chunk{key, node.object, place.chunk, view};
    // truncate(2) without an open file is as short as open and close.
    write_back_.open_writer(key);
    const Result<> resized = write_back_.resize(chunk, *change.size);
    if (resized) touch(key, {}, now());
    (void)write_back_.close_writer(chunk);
    CODECFS_TRY(resized);
    CODECFS_TRY(write_back_.flush(chunk));
  }
  if (change.accessed || change.modified) touch(ino, change.accessed, change.modified);
  return attributes(ino);
}

void Tree::touch(Ino ino, std::optional<timespec> accessed, std::optional<timespec> modified) {
  const std::lock_guard lock(times_mutex_);
  Times& times = times_[ino];
  if (accessed) times.accessed = accessed;
  if (modified) times.modified = modified;
}

Result<> Tree::unlink(Ino parent, std::string_view name) {
  CODECFS_ASSIGN(const Node* node, variable_directory(parent));
  if (node->kind != NodeKind::variable) return not_in_this_version(node->path, name);
  for (const NamedFile& file : files_of(node->kind))
    if (file.name == name) return not_in_this_version(node->path, name);
  if (scratch_.find(node->ino(), name)) return scratch_.unlink(node->ino(), name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, chunk_named(*node, name));
  if (!chunk) return std::unexpected(Error{ENOENT, {}});
  CODECFS_TRY(chunk_attributes(*node, *chunk->variable, chunk->number));  // ENOENT where it is not there
  return write_back_.remove(*chunk);
}

Result<std::optional<Ino>> Tree::rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name,
                                        bool replace) {
  CODECFS_ASSIGN(const Node* from, variable_directory(parent));
  CODECFS_ASSIGN(const Node* to, variable_directory(to_parent));
  if (from->kind != NodeKind::variable || to->kind != NodeKind::variable) return not_in_this_version(from->path, name);
  for (const NamedFile& file : files_of(NodeKind::variable))
    if (file.name == name || file.name == to_name) return not_in_this_version(from->path, name);
  const std::optional<Ino> scratch = scratch_.find(from->ino(), name);
  const bool from_chunk = !scratch && lookup(parent, name);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> target, chunk_named(*to, to_name));
  if (!replace) {
    const Result<struct stat> there = lookup(to->ino(), to_name);
    if (there) return fail(EEXIST, "{}/{}: exists", to->path, to_name);
  }
  if (scratch && !target) {
    CODECFS_TRY(scratch_.rename(from->ino(), name, to->ino(), to_name));
    return std::optional<Ino>();
  }
  if (!scratch) {
    if (!from_chunk) return std::unexpected(Error{ENOENT, {}});
    // The kernel would go on taking the chunk's inode for the new name. mv copies where it hears this.
    return fail(EXDEV, "{}/{}: a chunk cannot be renamed; copy it and remove it", from->path, name);
  }
  // Writers of the file wait until it is the chunk.
  CODECFS_ASSIGN(const std::string content, scratch_.seal(from->ino(), name));
  if (const Result<> replaced = write_back_.replace(*target, std::as_bytes(std::span(content))); !replaced) {
    scratch_.unseal(from->ino(), name);
    return std::unexpected(replaced.error());
  }
  Times times{{}, now()};
  {
    const std::lock_guard lock(times_mutex_);
    if (const auto found = times_.find(*scratch); found != times_.end()) times = found->second;
    times_.erase(*scratch);
  }
  touch(target->key, times.accessed, times.modified ? times.modified : now());
  scratch_.become(from->ino(), name, target->key);
  return std::optional(target->key);
}

std::vector<std::string> Tree::paths_open_for_writing() {
  std::vector<std::string> paths;
  for (const ChunkKey key : write_back_.open_writers()) {
    const Result<Place> place = place_of(key);
    if (!place) continue;
    if (const auto view = dataset_.variable(place->node->object))
      paths.push_back(place->node->path + "/" + (*view)->facts->grid.name_of(place->chunk));
  }
  return paths;
}

Result<> Tree::finish() {
  for (const std::string& name : scratch_.names())
    log::warning("{}: this file is no chunk, so it is not stored: it is lost with the mount", name);
  return write_back_.finish();
}

}  // namespace codecfs::fs
