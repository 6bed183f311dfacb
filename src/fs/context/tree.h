#pragma once
// The tree of a mount: its nodes and what it has beside its source. Each member has its own lock and can be used from
// all threads; docs/locking.md gives their order.

#include "base/fair_shared_mutex.h"
#include "base/mutex.h"
#include "fs/context/directory_overlay.h"
#include "fs/context/inode_times.h"
#include "fs/context/scratch_files.h"
#include "fs/context/staged_files.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

struct Tree {
  /// See Nodes.
  Tree(const Entry& root, View shown, Source* source) : nodes(root, shown, source) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  /// Resolves an inode number; that of a scratch file that has become a chunk is the chunk's. ESTALE.
  [[nodiscard]] Result<Place> place_of(Ino ino);
  /// Whether an inode number still refers to this place: a group may have become an array. It stays so while the caller
  /// holds `names`.
  [[nodiscard]] bool is_still(Ino ino, const Place& place) CODECFS_REQUIRES_SHARED(names);

  Nodes nodes;
  ScratchFiles scratch;
  StagedFiles staged_files;
  DirectoryOverlay overlay;
  InodeTimes times;

  // Exclusive for removals and moves, shared for other changes of the tree. Taken before all other locks.
  SharedMutex layout{LockRank::layout};
  // Shared between finding a name in the source and getting its node, and while a temporary file gets its name;
  // exclusive while names and nodes change. After `layout`.
  FairSharedMutex names{LockRank::names};
};

}  // namespace codecfs::fs
