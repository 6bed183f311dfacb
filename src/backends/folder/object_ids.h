#pragma once
// The ids of all objects of a mounted folder that were looked up: folders, files, and the objects of datasets.
//
// The source of a dataset assigns ids to its objects, which become invalid when the dataset is closed and reopened: the
// object must then be looked up by its name in its group. Thread-safe.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/folder/datasets.h"
#include "base/mutex.h"

namespace codecfs::folder {

struct Object {
  EntryKind kind = EntryKind::folder;
  std::string name;         // the key of a folder or file; the name in its group of an object of a dataset
  DatasetPtr dataset;       // null: a folder or file
  bool is_root = false;     // of the dataset
  ObjectId group = 0;       // its parent group, if it is not the root
  ObjectId inner = 0;       // the source's own id
  uint64_t generation = 0;  // of the dataset when `inner` was assigned
};

class ObjectIds {
 public:
  /// The id of a folder or file.
  ObjectId of(const std::string& key, EntryKind kind);
  /// The id of a dataset's root.
  ObjectId of_root(const DatasetPtr& dataset);
  /// The id of an entry in a group of a dataset.
  ObjectId of(ObjectId group, const DatasetPtr& dataset, uint64_t generation, const Entry& entry);

  /// A root stands for another dataset from now on, and the other ids for nothing any more.
  void replace_root(ObjectId root, const DatasetPtr& dataset);
  /// The paths in their dataset of all objects that have an id, "" for a root: at most `most`, none if there are more.
  [[nodiscard]] std::optional<std::vector<std::string>> paths(size_t most) const;

  /// ENOENT; ESTALE after replace_root().
  Result<Object> get(ObjectId id) const;
  /// ENOENT if the object was removed or its name in its group now refers to another object.
  Result<> check_named(ObjectId id) const;
  /// Sets the id that the dataset's current source has assigned to the object.
  void renew(ObjectId id, ObjectId inner, uint64_t generation);
  /// A name in a group no longer refers to an object.
  void removed(ObjectId group, std::string_view name);

 private:
  using Name = std::pair<ObjectId, std::string>;
  struct Inner {
    uint64_t generation = 0;
    std::unordered_map<ObjectId, ObjectId> ids;  // from the source's ids
  };

  ObjectId add(Object object) CODECFS_REQUIRES(mutex_);

  mutable SharedMutex mutex_;
  ObjectId outdated_ CODECFS_GUARDED_BY(mutex_) = 0;  // ids below are those of a former dataset, but for roots
  std::deque<Object> objects_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_map<std::string, ObjectId> by_key_ CODECFS_GUARDED_BY(mutex_);  // of folders and files
  // The keys are valid, because Objects keep their datasets alive.
  std::unordered_map<const Dataset*, ObjectId> roots_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_map<const Dataset*, Inner> by_inner_ CODECFS_GUARDED_BY(mutex_);
  std::map<Name, ObjectId> by_name_ CODECFS_GUARDED_BY(mutex_);  // of objects of datasets
};

}  // namespace codecfs::folder
