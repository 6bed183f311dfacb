#pragma once
// `.codecfs/references.json`: kerchunk references to the chunks of the source, for a source that is one file.
// Thread-safe.

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/context/mount_context.h"

namespace codecfs::fs {

class ReferencesFile {
 public:
  explicit ReferencesFile(MountContext& mount) : mount_(mount) {}

  /// False for a source that is not one file. Cheap.
  [[nodiscard]] bool exists() const;
  /// Makes the text, which may take seconds, unless another reader holds it. EBUSY while changes are not in the source,
  /// whose chunks are elsewhere then, or if it is changed meanwhile; the errors of MakeReferences.
  Result<Text> text();
  /// The bytes of the text that was made last; 0 before. Making it would take too long for a stat.
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  MountContext& mount_;
  Mutex making_{LockRank::references};  // held while a text is made, so that memory holds one
  std::weak_ptr<const std::string> last_ CODECFS_GUARDED_BY(making_);
  uint64_t changes_ CODECFS_GUARDED_BY(making_) = 0;  // MountContext::changes() when it was made
  std::atomic<uint64_t> size_ = 0;
};

}  // namespace codecfs::fs
