#pragma once
// The groups and arrays of an NCZarr store as netCDF-C sees them, while a change is being planned.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/nczarr.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/nczarr_changes.h"
#include "base/result.h"

namespace codecfs::zarr {

/// Composes and splits the path of a dimension in references ("/g/z"): key of the group, name. None if the path is
/// invalid.
std::string dimension_path(const std::string& group, std::string_view name);
std::optional<std::pair<std::string, std::string>> split_path(const std::string& path);

/// An array with references.
struct NczarrUser {
  std::string key;
  NczarrArray own;
  std::vector<uint64_t> shape;

  [[nodiscard]] bool has(const std::string& path) const;
};

class NczarrScope {
 public:
  /// `hierarchy` must outlive this object.
  explicit NczarrScope(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {}

  /// Reads the objects at `from`, but plans edits as if they were at `to` already.
  void pretend_moved(std::string from, std::string to);

  /// The lists of a group; null if it has none. Valid as long as the scope.
  Result<NczarrGroup*> at(const std::string& group);
  /// Marks the lists of a group as changed.
  void touch(const std::string& group) { groups_.at(group).is_changed = true; }
  /// The files of groups that changed since the last call; the file of `last` comes last.
  Result<std::vector<NczarrEdit>> take_edits(const std::string& last = {});

  /// The dimension with this path; null if there is none.
  Result<NczarrDimension*> dimension(const std::string& path);
  /// Whether a dimension of this name is visible from a group.
  Result<bool> sees(const std::string& group, std::string_view name);

  struct Wanted {
    std::string name;
    uint64_t length = 0;
    bool is_unlimited = false;
  };
  /// The path of a dimension for an array in a group with lists; the dimension is created if there is none. `user`: the
  /// key of that array, which may not exist yet. EINVAL.
  Result<std::string> resolve(const std::string& group, const Wanted& wanted, const std::string& user);

  /// The key of an array other than `user` that uses the dimension.
  Result<std::optional<std::string>> other_user(const std::string& path, const std::string& user);
  /// All arrays with references in a group and its descendants. Valid as long as the scope.
  Result<const std::vector<NczarrUser>*> users(const std::string& group);
  /// One array; none if it has no references.
  Result<std::optional<NczarrUser>> user(const std::string& key);

 private:
  struct Lists {
    std::optional<NczarrGroup> group;
    std::optional<std::string> text;  // of its file
    bool is_changed = false;
  };

  /// The key under which an object is currently stored.
  [[nodiscard]] std::string stored_key(const std::string& key) const;
  Result<Lists> load(const std::string& group) const;
  Result<> collect_users(const std::string& group, std::vector<NczarrUser>& found);
  Result<> redefine(const std::string& group, const Wanted& wanted, const std::string& user);

  const Hierarchy& hierarchy_;
  std::string from_, to_;  // of pretend_moved(); both empty before it is called
  std::map<std::string, Lists> groups_;
  std::map<std::string, std::vector<NczarrUser>> users_;  // by the group that was searched
};

}  // namespace codecfs::zarr
