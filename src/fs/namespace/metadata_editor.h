#pragma once
// Does what a written metadata file says: attributes, dimensions, shapes, filters, and new variables. Thread-safe.
//
// Locks, in this order: MountContext::layout, shared; then a variable's pause in WriteBack.

#include <string_view>
#include <vector>

#include "fs/namespace/coherence_monitor.h"
#include "fs/namespace/mount_context.h"
#include "fs/views/change_notifier.h"
#include "fs/views/chunk_files.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

class MetadataEditor {
 public:
  MetadataEditor(MountContext& mount, CoherenceMonitor& coherence, FilterControl& filters, ChangeNotifier& notifier,
                 ChunkFiles& chunk_files)
      : mount_(mount), coherence_(coherence), filters_(filters), notifier_(notifier), chunk_files_(chunk_files) {}

  /// `ino`: of a metadata file, or of a chunk of the encoded view, whose whole content is `text`. EINVAL if it cannot
  /// be done, EINTR if it was cancelled; nothing has changed then.
  Result<> apply(Ino ino, std::string_view text, const Cancelled& cancelled);

 private:
  Result<> apply_zattrs(Ino directory, std::string_view text);
  Result<> apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled);
  Result<> resize(const Node& node, const std::vector<uint64_t>& shape);
  /// The group becomes a variable of this type and shape.
  Result<> make_variable(Ino directory, Variable variable);
  /// Chunks that came before the .zarray, as cp -r may bring them.
  void adopt_spooled(const Node& variable);

  MountContext& mount_;
  CoherenceMonitor& coherence_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
  ChunkFiles& chunk_files_;
};

}  // namespace codecfs::fs
