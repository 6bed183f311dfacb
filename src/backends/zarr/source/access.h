#pragma once
// Access permissions for the groups and arrays of a store.

#include <sys/types.h>

#include <unordered_map>

#include "backends/api/source.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/object_table.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

struct Access {
  uid_t user;
  gid_t group;
  mode_t mode;  // rw bits only
};

/// Reading chunks requires permission to enter the directory and to read its files, for which the metadata file stands.
/// Writing replaces files, which requires write permission for the directory. ENOENT.
Result<Access> access_of(const Hierarchy& hierarchy, const Object& object);

/// Caches the permissions at the first query. Thread-safe.
class AccessCache {
 public:
  /// Calls `look` if the id is not cached.
  template <class Look>
  Result<Access> get(ObjectId id, const Look& look) {
    {
      const LockGuard lock(mutex_);
      if (const auto found = accesses_.find(id); found != accesses_.end()) return found->second;
    }
    CODECFS_ASSIGN(const Access access, look());
    const LockGuard lock(mutex_);
    return accesses_.try_emplace(id, access).first->second;
  }

 private:
  Mutex mutex_;
  std::unordered_map<ObjectId, Access> accesses_ CODECFS_GUARDED_BY(mutex_);
};

/// Permissions for new members of a group.
struct Modes {
  mode_t directory;
  mode_t file;
};

/// The permissions of the group itself. ENOENT.
Result<Modes> modes_for_members(const Hierarchy& hierarchy, const std::string& group);

}  // namespace codecfs::zarr
