#pragma once
// What the directories of a store are: groups and arrays, by the files in them.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "backends/zarr/store/store.h"
#include "base/result.h"

namespace codecfs::zarr {

inline constexpr const char* kArrayFile = ".zarray";
inline constexpr const char* kGroupFile = ".zgroup";
inline constexpr const char* kAttributesFile = ".zattrs";
inline constexpr const char* kConsolidatedFile = ".zmetadata";

inline constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;

class Hierarchy {
 public:
  /// `store` outlives this.
  explicit Hierarchy(const Store& store) : store_(store) {}

  /// What the directory of that name is; none: neither. One that is both an array and a group is an array.
  Result<std::optional<EntryKind>> kind_of(const std::string& key) const;
  /// Calls visit(name, kind) for every group and array in a group, in no order, until it returns false.
  Result<> for_each(const std::string& group, const std::function<bool(std::string_view, EntryKind)>& visit) const;
  struct Member {
    std::string name;  // of its directory
    EntryKind kind;
  };
  /// What an entry of that name (names.h) stands for; none where there is nothing.
  Result<std::optional<Member>> find(const std::string& group, std::string_view entry) const;
  /// The name of the directory for a new member of a group that is to have that entry. EINVAL.
  static Result<std::string> new_name(const std::string& group, std::string_view entry);
  /// The same for one that must not be there. EEXIST.
  Result<std::string> free_name(const std::string& group, std::string_view entry) const;

  /// Whether the directory of a key in `group` is the group itself or one above it, so that a walk would never end.
  Result<bool> leads_back(const std::string& group, const std::string& key) const;

  /// The text of a metadata file; none where there is none.
  Result<std::optional<std::string>> read_text(const std::string& key) const;

  /// Nothing, or ENOTEMPTY with what is in a group that must not go with it: a group, an array, or a file that is not
  /// Zarr's.
  Result<> check_empty(const std::string& group) const;
  /// Nothing, or EOPNOTSUPP where something at a key or below it is a symbolic link, which would lead elsewhere from
  /// another directory: a chunk whose file is not found reads as fill.
  Result<> check_no_links(const std::string& key) const;

 private:
  const Store& store_;
};

}  // namespace codecfs::zarr
