#pragma once
// Directories that are groups or arrays but cannot be read: their metadata is damaged, or it is missing although the
// consolidated metadata of the store lists it.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/api/object.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

/// Reads the consolidated metadata of a store once. Thread-safe.
class UnreadableMembers {
 public:
  /// The unreadable members of a group, sorted. EIO, ENOENT.
  Result<std::vector<UnreadableMember>> of(const Hierarchy& hierarchy, const std::string& group);

 private:
  bool is_listed(const Hierarchy& hierarchy, const std::string& key);

  Mutex mutex_{LockRank::unreadable_members};
  std::optional<std::set<std::string>> listed_ CODECFS_GUARDED_BY(mutex_);  // keys of groups and arrays
};

}  // namespace codecfs::zarr
