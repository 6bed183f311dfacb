#pragma once
// The symbolic links in the groups of a store, as notes of links (backends/api/link_notes.h).

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/zarr/source/hierarchy.h"
#include "base/mutex.h"
#include "base/result.h"
#include "model/json_value.h"

namespace codecfs::zarr {

/// Notes of the links in a group, and of members with names that are escaped, sorted by their names, which are file
/// names. `noted`: what the group says of links that were HDF5's, by their keys. That counts where nothing has the
/// name, as archives, object stores and many programs that copy do not have links, and where a link has the text that
/// is noted.
///
/// A link that leads out of the store has no note where its target is a group or array, of which the store then has a
/// copy for readers, or another file. Nothing outside of the store is looked at for more than that.
Result<std::vector<Attribute>> link_notes(const Hierarchy& hierarchy, const std::string& group, const Json& noted);

/// The links of groups that a source shows as such. Thread-safe, but for show().
class LinksShown {
 public:
  using Notes = std::shared_ptr<const std::vector<Attribute>>;  // sorted; null: no links are shown

  void show(bool shown) {
    is_on_ = shown;
    const LockGuard lock(mutex_);
    notes_.clear();
  }
  /// The notes of a group's links, from its attributes, which `read` reads once.
  Result<Notes> of(ObjectId group, const std::function<Result<std::vector<Attribute>>()>& read);

  /// The note of a file name, or null.
  static const Attribute* find(const Notes& notes, std::string_view name);
  static Entry entry_of(const Attribute& note);
  static std::vector<Entry> entries(const Notes& notes);

 private:
  bool is_on_ = false;
  Mutex mutex_;
  std::map<ObjectId, Notes> notes_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::zarr
