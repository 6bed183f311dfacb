#pragma once
// Who may do what with the groups and arrays of a store.

#include <sys/types.h>

#include <mutex>
#include <unordered_map>

#include "backends/api/source.h"
#include "backends/zarr/source/object_table.h"
#include "backends/zarr/store/store.h"
#include "base/result.h"

namespace codecfs::zarr {

struct Access {
  uid_t user;
  gid_t group;
  mode_t mode;  // of rw bits
};

/// Who reads chunks must be let into the directory, and be able to read files in it, of which the one with the metadata
/// stands for all. Who writes replaces files: that takes the right to write to the directory. ENOENT.
Result<Access> access_of(const Store& store, const Object& object);

/// What it was when it was first asked for. Safe from all threads.
class KnownAccesses {
 public:
  /// `look` is called where it is not known yet.
  template <class Look>
  Result<Access> get(ObjectId id, const Look& look) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = accesses_.find(id); found != accesses_.end()) return found->second;
    }
    CODECFS_ASSIGN(const Access access, look());
    const std::lock_guard lock(mutex_);
    return accesses_.try_emplace(id, access).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<ObjectId, Access> accesses_;  // guarded by mutex_
};

/// Permissions of what is made in a group.
struct Modes {
  mode_t directory;
  mode_t file;
};

/// As those of the group itself. ENOENT.
Result<Modes> modes_for_members(const Store& store, const std::string& group);

}  // namespace codecfs::zarr
