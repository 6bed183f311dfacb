#pragma once
// Names in the npy and raw views: NAME.npy or NAME for the variable NAME, and groups as directories. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "fs/chunks/array_file.h"
#include "fs/context/mount_context.h"
#include "fs/nodes/open_directory.h"

namespace codecfs::fs {

/// The path of a variable's file in its view (ArrayForm).
std::string array_path(const Node& node);

/// A variable as the file of its view. EOPNOTSUPP if numpy has no such type; ENOENT in a view without such files.
Result<ArrayFile> array_of(VariablePtr variable, View view);
Result<ArrayFile> array_of(Dataset& dataset, View view, ObjectId variable);

class ArrayNames {
 public:
  explicit ArrayNames(MountContext& mount) : mount_(mount) {}

  /// The entry that a name in the directory denotes: NAME.npy is the variable NAME. ENOENT.
  Result<Entry> find(const Node& group, std::string_view name);
  /// Reduces the entries to those that the view shows, and sets their names.
  void show(const Node& group, OpenDirectory& directory);
  Result<std::string> link_target(const Node& link);

 private:
  /// The variable that an entry is, or is a link to.
  std::optional<ObjectId> variable_behind(const Node& directory, const Entry& entry);

  MountContext& mount_;
};

}  // namespace codecfs::fs
