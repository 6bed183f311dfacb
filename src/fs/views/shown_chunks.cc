#include "fs/views/shown_chunks.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "fs/nodes/chunk_names.h"
#include "model/chunk_directories.h"

namespace codecfs::fs {

ShownChunks::ShownChunks(MountContext& mount, CoherenceMonitor& coherence, const Node& node, const VariableView& view,
                         size_t batch)
    : mount_(mount),
      node_(node),
      view_(view),
      batch_(batch),
      all_(mount.lists_absent(node, view)),
      shows_shards_(node.form().shows_shards(*view.facts)),
      changes_(shows_shards_ ? WriteBack::Changes() : coherence.changes_of(node)) {}

Result<std::optional<uint64_t>> ShownChunks::next(uint64_t from) {
  if (all_) {
    for (; from < view_.facts->grid.count(); ++from)
      if (is_shown(from)) return from;
    return std::nullopt;
  }
  for (;;) {
    if (from < begin_ || from >= end_) {
      CODECFS_ASSIGN(const std::vector<uint64_t> stored, stored_from(from));
      begin_ = from;
      end_ = stored.size() == batch_ ? stored.back() + 1 : UINT64_MAX;
      numbers_.clear();
      // Chunks that were written but are not stored yet come in between.
      std::ranges::set_union(
          stored, std::ranges::subrange(changes_.written.lower_bound(from), changes_.written.lower_bound(end_)),
          std::back_inserter(numbers_));
    }
    for (auto at = std::ranges::lower_bound(numbers_, from); at != numbers_.end(); ++at)
      if (is_shown(*at)) return *at;
    if (end_ == UINT64_MAX) return std::nullopt;
    from = end_;
  }
}

Result<bool> shows_anything(MountContext& mount, CoherenceMonitor& coherence, const Node& variable,
                            const VariableView& view, uint64_t directory) {
  const ChunkDirectories directories(grid_of(variable.view, *view.facts));
  const std::vector<uint64_t> prefix = directories.prefix_of(directory);
  CODECFS_ASSIGN(const Ino ino, mount.tree.nodes.directory_ino(variable, directory, directories.count()));
  if (!mount.tree.scratch.directories_within(ino, directories.count_below(prefix.size())).empty()) return true;
  const ChunkDirectories::Range chunks = directories.chunks_below(prefix);
  CODECFS_ASSIGN(const std::optional<uint64_t> first,
                 ShownChunks(mount, coherence, variable, view, 1).next(chunks.first));
  return first && *first < chunks.end;
}

Result<std::vector<uint64_t>> ShownChunks::stored_from(uint64_t from) {
  Source& source = mount_.dataset.source();
  if (!shows_shards_) return source.stored_chunks(node_.object, from, batch_);
  // Chunks that are not stored yet make shards.
  CODECFS_TRY(mount_.chunks.write_back.store(node_.object));
  return source.stored_shards(node_.object, from, batch_);
}

bool ShownChunks::is_shown(uint64_t number) const {
  if (shows_shards_) return true;
  return !changes_.removed.contains(number) && !mount_.tree.overlay.is_unlinked(node_, number);
}

}  // namespace codecfs::fs
