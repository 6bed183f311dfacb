#pragma once
// Changes of a file's attributes: chmod, chown, truncate and utimens. Thread-safe.

#include <sys/stat.h>

#include <optional>

#include "fs/context/mount_context.h"
#include "fs/context/name_policy.h"
#include "fs/handles/file_handle.h"
#include "fs/namespace/namespace.h"
#include "fs/views/array_view.h"
#include "fs/views/change_notifier.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

/// Only the members that are set change.
struct InodeChange {
  std::optional<mode_t> permissions;
  std::optional<uid_t> owner;
  std::optional<gid_t> group;
  std::optional<uint64_t> size;  // bytes
  std::optional<timespec> accessed;
  std::optional<timespec> modified;
};

class InodeChanges {
 public:
  InodeChanges(MountContext& mount, FilterControl& filters, ChangeNotifier& notifier, ArrayView& arrays,
               Namespace& names, NamePolicy& policy)
      : mount_(mount), filters_(filters), notifier_(notifier), arrays_(arrays), names_(names), policy_(policy) {}

  /// Returns the new attributes. `file`: that of ftruncate(2), else null. EROFS; EPERM for permissions and owners,
  /// which are the source's; EINVAL for a size that the file cannot have.
  Result<struct stat> change(Ino ino, const InodeChange& change, const Cancelled& cancelled = {},
                             FileHandle* file = nullptr);

 private:
  /// `shown`: the inode number in its attributes.
  Result<> resize(const Place& place, const struct stat& shown, Ino ino, uint64_t size, const Cancelled& cancelled,
                  FileHandle* file);
  Result<> resize_chunk(const Node& node, uint64_t number, const struct stat& shown, Ino ino, uint64_t size,
                        const Cancelled& cancelled);

  MountContext& mount_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
  ArrayView& arrays_;
  Namespace& names_;
  NamePolicy& policy_;
};

}  // namespace codecfs::fs
