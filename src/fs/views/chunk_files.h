#pragma once
// The files of chunks in the views that have a directory for each variable: which exist, their attributes, and the
// replacement of one as a whole. Thread-safe.

#include <sys/stat.h>

#include <optional>
#include <string_view>

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/views/change_notifier.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_view.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

class ChunkFiles {
 public:
  ChunkFiles(MountContext& mount, CoherenceMonitor& coherence, InodeAttributes& inodes, EncodedView& encoded,
             FilterControl& filters, ChangeNotifier& notifier)
      : mount_(mount),
        coherence_(coherence),
        inodes_(inodes),
        encoded_(encoded),
        filters_(filters),
        notifier_(notifier) {}

  /// ENOENT if the view shows no such chunk.
  Result<struct stat> attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  /// The attributes of one that attributes() could not look up: the size is that of the decoded chunk, or 1 where only
  /// reading would tell it.
  std::optional<struct stat> known(const Node& node, const VariableViewPtr& view, uint64_t number);
  /// The chunk that a name denotes in a directory, of a variable or of chunks; none for other names. EINVAL for one
  /// outside the grid.
  Result<std::optional<ChunkPlace>> named(const Place& directory, std::string_view name);
  /// Stores the content of a whole chunk file of the node's view.
  Result<> put(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);
  /// Removes a shard with all of its chunks.
  Result<> remove_shard(const Node& node, const ChunkPlace& shard);

 private:
  Result<struct stat> chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number);

  MountContext& mount_;
  CoherenceMonitor& coherence_;
  InodeAttributes& inodes_;
  EncodedView& encoded_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
};

}  // namespace codecfs::fs
