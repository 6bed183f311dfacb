#include "fs/context/tree.h"

namespace codecfs::fs {

Result<Place> Tree::place_of(Ino ino) {
  CODECFS_ASSIGN(const Place place, nodes.at(ino));
  if (place.node->kind != NodeKind::scratch) return place;
  const std::optional<Ino> chunk = scratch.promoted_to(ino);
  return chunk ? nodes.at(*chunk) : place;
}

bool Tree::is_still(Ino ino, const Place& place) {
  const Result<Place> now = place_of(ino);
  return now && now->node == place.node && now->file == place.file && now->chunk == place.chunk;
}

}  // namespace codecfs::fs
