#pragma once
// Changes of the source by other programs: of the files of a mounted folder, which are always shown as they are, and,
// with -o coherent, of a Zarr store. Thread-safe.

#include <chrono>
#include <memory>
#include <unordered_set>

#include "base/mutex.h"
#include "fs/context/mount_context.h"
#include "fs/views/change_notifier.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::fs {

class CoherenceMonitor {
 public:
  CoherenceMonitor(MountContext& mount, EncodedForms& forms, ChangeNotifier& notifier)
      : mount_(mount), forms_(forms), notifier_(notifier) {}

  /// Whether other programs may change its attributes or content.
  [[nodiscard]] bool may_change_outside(Ino ino) const;
  /// As Tree::place_of(), after a check for changes by other programs.
  Result<Place> current_place_of(Ino ino);
  /// Whether the last check of the object was long enough ago; if so, records a check now.
  bool is_due(ObjectId object);
  /// Records the shape that the chunk numbers of a variable are based on.
  void note_numbering(ObjectId variable, VariablePtr facts);

  void note_removed(const ChunkPlace& chunk);
  /// Whether a chunk was removed in this mount, and not written since, by this mount or another program.
  bool is_removed(const Node& node, uint64_t number, Ino key);
  /// The chunks of a variable that differ from the source's.
  WriteBack::Changes changes_of(const Node& node);

  /// Another program was found to have changed a chunk: drops what is cached of it, or of its shard.
  void chunk_changed_outside(const ChunkPlace& chunk);

  // -o coherent: what is cached of a file that is about to be opened is dropped.
  Result<> array_opened(const Node& node, const VariableView& variable);
  void chunk_opened(const ChunkPlace& chunk);

 private:
  /// Drops cached metadata of a group or variable that another program has changed. If the shape of a variable has
  /// changed, its chunks get new inode numbers.
  void look_outside(const Node& node);
  void look_at_variable(const Node& node);
  bool is_open_for_writing(ObjectId variable);

  MountContext& mount_;
  EncodedForms& forms_;
  ChangeNotifier& notifier_;

  Mutex gone_mutex_;
  // Keys of chunks that were removed and are not stored in the source.
  std::unordered_set<Ino> gone_ CODECFS_GUARDED_BY(gone_mutex_);
  /// When look_outside() last checked an object.
  struct LookedAt {
    std::chrono::steady_clock::time_point at;
    VariablePtr facts;  // of a variable: the shape that its chunk numbers are based on
  };
  LruMap<ObjectId, LookedAt> looked_at_{4096};
};

}  // namespace codecfs::fs
