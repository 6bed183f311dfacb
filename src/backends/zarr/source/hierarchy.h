#pragma once
// Finds the groups and arrays among the directories of a store, by the files in them.

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "backends/zarr/metadata/metadata_files.h"
#include "backends/zarr/store/store.h"
#include "base/result.h"

namespace codecfs::zarr {

/// The text of a metadata file; none if it does not exist.
Result<std::optional<std::string>> read_metadata(const Store& store, const std::string& key);

class Hierarchy {
 public:
  /// `store` must outlive this object.
  explicit Hierarchy(const Store& store, ZarrFormat format) : store_(store), format_(format) {}

  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] ZarrFormat format() const { return format_; }
  /// The name of the file that makes a directory a group or an array.
  [[nodiscard]] const char* file_of(EntryKind kind) const {
    if (format_ == ZarrFormat::v3) return kZarr3File;
    return kind == EntryKind::variable ? kArrayFile : kGroupFile;
  }

  /// The kind of a directory; none if it is neither group nor array. A directory that is both counts as an array; one
  /// without metadata is an implicit group if there are groups or arrays below it.
  Result<std::optional<EntryKind>> kind_of(const std::string& key) const;
  /// As kind_of(), without implicit groups.
  Result<std::optional<EntryKind>> explicit_kind_of(const std::string& key) const;
  /// Calls visit(name, kind) for every group and array in a group, in no particular order, until it returns false. What
  /// skips(name) is true for is not looked at.
  Result<> for_each(const std::string& group, const std::function<bool(std::string_view, EntryKind)>& visit,
                    const std::function<bool(std::string_view)>& skips = {}) const;
  struct Member {
    std::string name;  // of its directory
    EntryKind kind;
  };
  /// The member with this entry name (names.h); none if it does not exist.
  Result<std::optional<Member>> find(const std::string& group, std::string_view entry) const;
  /// The directory name for a new member with that entry name. EINVAL.
  static Result<std::string> new_name(const std::string& group, std::string_view entry);
  /// As new_name(), but EEXIST if the group has such a member.
  Result<std::string> free_name(const std::string& group, std::string_view entry) const;

  /// Whether the directory of a key in `group` is, through a link, the group itself or one of its ancestors, so that a
  /// walk would not terminate.
  Result<bool> forms_cycle(const std::string& group, const std::string& key) const;

  /// The text of a metadata file; none if it does not exist.
  Result<std::optional<std::string>> read_text(const std::string& key) const { return read_metadata(store_, key); }

  /// ENOTEMPTY with the member that must not be removed with the group: a group, an array, or a file that is not
  /// Zarr's.
  Result<> check_empty(const std::string& group) const;
  /// EOPNOTSUPP if a key or a descendant is a symbolic link, which would have another target from another directory: a
  /// chunk whose file is not found reads as fill.
  Result<> check_no_links(const std::string& key) const;

 private:
  Result<bool> holds_members(const std::string& key) const;
  [[nodiscard]] bool is_of_member(const std::string& key, const Error& error) const;

  const Store& store_;
  const ZarrFormat format_;
  mutable std::atomic<bool> told_of_limit_ = false;
};

}  // namespace codecfs::zarr
