#pragma once
// The content of files that is produced as a whole: metadata files, and chunks whose size only decoding or encoding
// determines. Thread-safe.

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "fs/context/mount_context.h"
#include "fs/nodes/slice.h"
#include "fs/views/encoded_view.h"
#include "fs/views/metadata_view.h"

namespace codecfs::fs {

/// All parts that a reader gets belong to one state, unless the file changes between its requests; the kernel serves
/// other readers from the same pages.
struct Snapshot {
  explicit Snapshot(Ino file) : ino(file) {}
  Snapshot(Ino file, uint64_t changes_then, Slice content)
      : ino(file), changes(changes_then), held(std::move(content)) {}

  const Ino ino;
  Mutex mutex{LockRank::open_file};
  // MountContext::changes() when `held` was produced; none: not produced yet.
  std::optional<uint64_t> changes CODECFS_GUARDED_BY(mutex);
  Slice held CODECFS_GUARDED_BY(mutex);
};

class WholeFiles {
 public:
  WholeFiles(MountContext& mount, EncodedView& encoded, MetadataView& metadata)
      : mount_(mount), encoded_(encoded), metadata_(metadata) {}

  Result<std::unique_ptr<Snapshot>> take_snapshot(Ino ino);
  /// A snapshot that is produced when it is first read.
  static std::unique_ptr<Snapshot> empty_snapshot(Ino ino);
  /// The current content: after an invalidation the kernel must not get the old one again.
  Result<Slice> look_at(Snapshot& snapshot);

  MountContext& mount() { return mount_; }

 private:
  Result<Slice> make_whole(Ino ino);

  MountContext& mount_;
  EncodedView& encoded_;
  MetadataView& metadata_;
};

}  // namespace codecfs::fs
