#include "fs/handles/inode_changes.h"

#include "fs/nodes/clock.h"

namespace codecfs::fs {

Result<struct stat> InodeChanges::change(Ino ino, const InodeChange& change, const Cancelled& cancelled,
                                         FileHandle* file) {
  // Its number is the file's own: `ino` may be that of a file that was renamed to it.
  CODECFS_ASSIGN(const struct stat status, names_.found(ino));
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  const Node& node = *place.node;
  if (mount_.options.read_only) return fail(EROFS, "{}: this mount is read-only", node.path);
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) CODECFS_TRY(policy_.changeable_directory(ino));
  if (change.permissions && node.kind == NodeKind::scratch) {
    CODECFS_TRY(mount_.tree.scratch.set_permissions(ino, *change.permissions));
  } else if (change.permissions && (*change.permissions & 07777) != (status.st_mode & 07777)) {
    return fail(EPERM, "{}: permissions are those of the source", node.path);
  }
  if ((change.owner && *change.owner != status.st_uid) || (change.group && *change.group != status.st_gid))
    return fail(EPERM, "{}: the owner is that of the source", node.path);
  if (change.size) CODECFS_TRY(resize(place, status, ino, *change.size, cancelled, file));
  if (change.accessed || change.modified) mount_.tree.times.set(status.st_ino, change.accessed, change.modified);
  return names_.found(ino);
}

Result<> InodeChanges::resize(const Place& place, const struct stat& shown, Ino ino, uint64_t size,
                              const Cancelled& cancelled, FileHandle* file) {
  const Node& node = *place.node;
  if (node.kind == NodeKind::scratch) return mount_.tree.scratch.resize(ino, size);
  if (const auto staged = mount_.tree.staged_files.find(shown.st_ino)) return staged->resize(size);
  if (place.file == FileKind::array) {
    CODECFS_TRY(arrays_.check_size(node, size));
    return file != nullptr ? file->extended(size, cancelled) : Result<>();
  }
  if (place.file != FileKind::chunk)
    return fail(EINVAL, "{}: a part of a metadata file means nothing: write it as a whole", node.path);
  if (node.form().is_encoded)
    return fail(EINVAL, "{}: a part of an encoded chunk means nothing: write it as a whole", node.path);
  return resize_chunk(node, place.chunk, shown, ino, size, cancelled);
}

Result<> InodeChanges::resize_chunk(const Node& node, uint64_t number, const struct stat& shown, Ino ino, uint64_t size,
                                    const Cancelled& cancelled) {
  CODECFS_ASSIGN(const ChunkPlace chunk, mount_.chunk_place(shown.st_ino));
  CODECFS_TRY(filters_.apply_rules(chunk, cancelled));
  if (static_cast<off_t>(size) != shown.st_size) mount_.chunks.page_copies.give_up(ino);
  // truncate(2) without an open file has the effect of open, ftruncate and close.
  WriteBack::Writer writer = mount_.chunks.write_back.open_writer(chunk);
  const Result<> resized = mount_.chunks.write_back.resize(chunk, size);
  if (resized) {
    mount_.tree.times.set(shown.st_ino, {}, now());
    mount_.kernel.pages.await_quiet(shown.st_ino);
    notifier_.chunk_changed(node, number);
  }
  if (writer.close().value_or(true)) notifier_.chunk_changed(node, number);
  CODECFS_TRY(resized);
  return mount_.chunks.write_back.flush(chunk);
}

}  // namespace codecfs::fs
