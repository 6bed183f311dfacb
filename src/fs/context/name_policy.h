#pragma once
// Where names can be created, removed and changed, and which: what this mount could never store is refused.
// Thread-safe.

#include <string_view>

#include "fs/context/mount_context.h"

namespace codecfs::fs {

class NamePolicy {
 public:
  explicit NamePolicy(MountContext& mount) : mount_(mount) {}

  /// A directory with entries that can be changed: of a node, or of chunks. EROFS, ENOTDIR, EPERM. `new_name`: the name
  /// that is about to be created in it; EINVAL with a reason for names that are never stored.
  Result<Place> changeable_directory(Ino ino, std::string_view new_name = {});
  /// Success for a file that is neither chunk nor metadata but may become one. EINVAL with a reason for all others,
  /// which the unmount would lose.
  Result<> may_stage(const Place& directory, std::string_view name);

 private:
  /// The root of the source, or of a dataset of a folder: a group that cannot become a variable.
  [[nodiscard]] bool is_dataset_root(const Node& node) const;
  /// In a view of Zarr v3: a coordinate below a group `c` that was made for the chunks of an array that is still to
  /// come.
  [[nodiscard]] bool is_spooled_chunk(const Node& node, std::string_view name) const;
  /// In the directory `c` of a group where zarr.json was refused.
  [[nodiscard]] bool is_below_v3_array(const Node& node) const;

  MountContext& mount_;
};

}  // namespace codecfs::fs
