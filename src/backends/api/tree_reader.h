#pragma once
// Reads the tree of a source: groups, variables, their metadata, and the files of a folder. Thread-safe. Only find()
// resolves names, which are file names, escaped as in Entry.
//
// Errors: ENOENT (no such object), EIO (damaged or unreadable), kNewerFormat (newer_format.h), EOPNOTSUPP (cannot be
// represented as Zarr), ENOMEM; each with a reason.

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/chunk_reader.h"
#include "backends/api/object.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/variable.h"

namespace codecfs {

class TreeReader {
 public:
  virtual ~TreeReader() = default;

  /// The root: a group, or a variable if the source is one array. Its name is empty.
  [[nodiscard]] virtual Entry root() const = 0;
  /// Times, owner and mode of one object; for files of a folder also the size.
  [[nodiscard]] virtual Result<struct stat> status_of(ObjectId) const = 0;
  /// All members of a group, in the source's order (creation order if that is stored), but for those that cannot be
  /// read.
  virtual Result<std::vector<Entry>> list(ObjectId group) = 0;
  /// Those that list() leaves out. Takes as long.
  virtual Result<std::vector<UnreadableMember>> unreadable_members(ObjectId) { return std::vector<UnreadableMember>(); }
  /// Both, for code that only describes: the source may read them in a quicker way.
  virtual Result<Members> overview(ObjectId group) {
    CODECFS_ASSIGN(std::vector<Entry> entries, list(group));
    CODECFS_ASSIGN(std::vector<UnreadableMember> unreadable, unreadable_members(group));
    return Members{std::move(entries), std::move(unreadable)};
  }
  /// One member of a group. ENOENT.
  virtual Result<Entry> find(ObjectId group, std::string_view name) = 0;
  virtual Result<std::vector<Attribute>> group_attributes(ObjectId group) = 0;
  /// Those that group_attributes() leaves out. Reads them all. Errors as group_attributes().
  virtual Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId group) {
    CODECFS_TRY(group_attributes(group));
    return std::vector<LeftOutAttribute>();
  }
  /// The links of a group as a conversion to HDF5 makes them, and which names it restores (link_notes.h), by file
  /// names. A store of Zarr has some links that list() does not show, or shows as what they lead to.
  virtual Result<std::vector<Attribute>> link_notes(ObjectId) { return std::vector<Attribute>(); }
  /// From now on, the links that link_notes() has are shown as such, or no longer. No other call may run meanwhile, and
  /// what others have returned before is no longer valid where there are links.
  virtual void show_links(bool /*shown*/) {}
  /// The dimensions that a group defines, in their order. Empty where arrays only name their dimensions.
  virtual Result<std::vector<GroupDimension>> dimensions(ObjectId) { return std::vector<GroupDimension>(); }
  /// None, but for the groups of an NCZarr store.
  virtual Result<std::optional<NczarrMembers>> nczarr_members(ObjectId) { return std::optional<NczarrMembers>(); }
  /// All metadata of a variable. Built at each call; callers cache it, and must fetch it again after each call that
  /// changes the variable's metadata.
  virtual Result<VariablePtr> variable(ObjectId variable) = 0;
  /// The same without attributes and dimension names, which may require scanning the whole source.
  virtual Result<VariablePtr> facts(ObjectId variable) { return this->variable(variable); }
  /// The attributes alone. EIO if they cannot be read.
  virtual Result<std::vector<Attribute>> variable_attributes(ObjectId variable) {
    CODECFS_ASSIGN(const VariablePtr all, this->variable(variable));
    if (all->unreadable_attributes) return std::unexpected(*all->unreadable_attributes);
    return all->attributes;
  }
  /// What a variable takes data from and is not there, for messages ("/v in other.h5"): readers find the fill value in
  /// its place.
  virtual Result<std::vector<std::string>> missing_sources(ObjectId) { return std::vector<std::string>(); }
  /// Opens a file of a folder for reading.
  virtual Result<UniqueFd> open_file(ObjectId) { return fail(ENOENT, "there are no such files"); }
  /// The same of one that is no file of this machine; null for others.
  virtual Result<std::shared_ptr<const ContentReader>> open_content(ObjectId) {
    return std::shared_ptr<const ContentReader>();
  }
  /// Of the files and folders of a folder: an id from list() or find() is valid for some seconds, and until release()
  /// if it is kept. False if it is not valid any more: the name must be looked up again. Each takes one lock, of its
  /// own, and makes no calls.
  virtual bool keep(ObjectId) { return true; }
  virtual void release(ObjectId) noexcept {}
  /// Whether another program has changed the metadata of an object (for a group also its members) since the previous
  /// call; the caller must then drop its caches of it. Only with -o coherent.
  virtual bool changed_outside(ObjectId) { return false; }
};

}  // namespace codecfs
