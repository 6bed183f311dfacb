#pragma once
// The chunk files of a variable that a view shows: those that are stored or written and not removed, or all of them
// where absent chunks are shown. In the view encoded3 of a sharded variable these are its shards.

#include <cstdint>
#include <optional>
#include <vector>

#include "fs/context/mount_context.h"
#include "fs/views/coherence_monitor.h"

namespace codecfs::fs {

/// Finds them in the order of their numbers, as they are when it is made. Not thread-safe.
class ShownChunks {
 public:
  /// `batch`: how many numbers are asked of the source at once. All arguments outlive it.
  ShownChunks(MountContext& mount, CoherenceMonitor& coherence, const Node& node, const VariableView& view,
              size_t batch);

  /// The first number from `from` on; none if there is no further chunk. Errors of the source.
  Result<std::optional<uint64_t>> next(uint64_t from);
  /// Whether every chunk that is not removed is shown.
  [[nodiscard]] bool all() const { return all_; }

 private:
  Result<std::vector<uint64_t>> stored_from(uint64_t from);
  [[nodiscard]] bool is_shown(uint64_t number) const;

  MountContext& mount_;
  const Node& node_;
  const VariableView& view_;
  const size_t batch_;
  const bool all_;
  const bool shows_shards_;
  const WriteBack::Changes changes_;
  // The numbers in [begin_, end_), removed ones included.
  std::vector<uint64_t> numbers_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

/// Whether a directory of chunks shows a chunk or a file that waits for its name, at any depth.
Result<bool> shows_anything(MountContext& mount, CoherenceMonitor& coherence, const Node& variable,
                            const VariableView& view, uint64_t directory);

}  // namespace codecfs::fs
