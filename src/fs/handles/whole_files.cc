#include "fs/handles/whole_files.h"

#include <span>
#include <utility>

namespace codecfs::fs {
std::unique_ptr<Snapshot> WholeFiles::empty_snapshot(Ino ino) { return std::make_unique<Snapshot>(ino); }

Result<std::unique_ptr<Snapshot>> WholeFiles::take_snapshot(Ino ino) {
  const uint64_t changes = mount_.changes();
  CODECFS_ASSIGN(Slice content, make_whole(ino));
  return std::make_unique<Snapshot>(ino, changes, std::move(content));
}

Result<Slice> WholeFiles::look_at(Snapshot& snapshot) {
  const LockGuard lock(snapshot.mutex);
  const uint64_t changes = mount_.changes();
  if (changes == snapshot.changes) return snapshot.held;
  Result<Slice> now = make_whole(snapshot.ino);
  if (!now && now.error().code != ENOENT && now.error().code != ESTALE) return now;
  // A file that was removed since the open keeps its last content; it is not empty if nothing was read before.
  if (!now && !snapshot.changes) return std::unexpected(Error{ESTALE, now.error().reason});
  if (now) snapshot.held = *std::move(now);
  snapshot.changes = changes;
  return snapshot.held;
}

Result<Slice> WholeFiles::make_whole(Ino ino) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  const Node& node = *place.node;
  if (place.file != FileKind::chunk) {
    CODECFS_ASSIGN(const Text text, metadata_.text_of(node, place.file));
    return Slice{std::as_bytes(std::span(*text)), text};
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, mount_.chunk_place(ino));
  ChunkPtr bytes;
  if (node.form().is_encoded) {
    CODECFS_ASSIGN(bytes, encoded_.content(node, chunk));
  } else if (const auto edited = mount_.chunks.write_back.content(chunk.key)) {
    return Slice{edited->bytes->bytes().first(edited->size), edited->bytes};
  } else {
    CODECFS_ASSIGN(bytes, mount_.chunks.decoder.decoded(chunk));
  }
  return Slice{bytes->bytes(), bytes};
}

}  // namespace codecfs::fs
