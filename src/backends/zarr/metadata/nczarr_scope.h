#pragma once
// The groups and arrays of an NCZarr store as netCDF-C sees them, while a change of them is planned.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/nczarr.h"
#include "backends/zarr/metadata/nczarr_changes.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/result.h"

namespace codecfs::zarr {

/// The path of a dimension as references have it ("/g/z"), and its parts: key of the group, name. None for what is no
/// such path.
std::string dimension_path(const std::string& group, std::string_view name);
std::optional<std::pair<std::string, std::string>> split_path(const std::string& path);

/// An array that has references.
struct NczarrUser {
  std::string key;
  NczarrArray own;
  std::vector<uint64_t> shape;

  [[nodiscard]] bool has(const std::string& path) const;
};

class NczarrScope {
 public:
  /// `hierarchy` outlives this.
  explicit NczarrScope(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {}

  /// What is at `from` is looked at, and told of in edits, as if it were at `to` already.
  void pretend_moved(std::string from, std::string to);

  /// The lists of a group, null where it has none. Good as long as the scope.
  Result<NczarrGroup*> at(const std::string& group);
  /// They were changed.
  void touch(const std::string& group) { groups_.at(group).is_changed = true; }
  /// The files of groups that were changed since the last call; that of `last` is the last.
  Result<std::vector<NczarrEdit>> take_edits(const std::string& last = {});

  /// The dimension that a path tells, null where there is none.
  Result<NczarrDimension*> dimension(const std::string& path);
  /// Whether a dimension of this name is seen from a group.
  Result<bool> sees(const std::string& group, std::string_view name);

  struct Wanted {
    std::string name;
    uint64_t length = 0;
    bool is_unlimited = false;
  };
  /// The path of a dimension that an array of a group (which has lists) may have; made where there is none. `user`: the
  /// key of that array, which may not be there yet. EINVAL.
  Result<std::string> resolve(const std::string& group, const Wanted& wanted, const std::string& user);

  /// Whether an array other than `user` has the dimension; its key.
  Result<std::optional<std::string>> other_user(const std::string& path, const std::string& user);
  /// Every array in a group and below it that has references. Good as long as the scope.
  Result<const std::vector<NczarrUser>*> users(const std::string& group);
  /// An array; none where it has no references.
  Result<std::optional<NczarrUser>> user(const std::string& key);

 private:
  struct Lists {
    std::optional<NczarrGroup> group;
    std::optional<std::string> text;  // of its file
    bool is_changed = false;
  };

  /// The key under which something is found now.
  [[nodiscard]] std::string stored_key(const std::string& key) const;
  Result<Lists> load(const std::string& group) const;
  Result<> collect_users(const std::string& group, std::vector<NczarrUser>& found);
  Result<> redefine(const std::string& group, const Wanted& wanted, const std::string& user);

  const Hierarchy& hierarchy_;
  std::string from_, to_;  // pretend_moved(); both empty: not so
  std::map<std::string, Lists> groups_;
  std::map<std::string, std::vector<NczarrUser>> users_;  // by the group that was looked through
};

}  // namespace codecfs::zarr
