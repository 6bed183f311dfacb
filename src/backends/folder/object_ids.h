#pragma once
// The ids of everything in a mounted folder that somebody has looked up: folders, files, and the objects of datasets.
//
// An object of a dataset is known by the id that its source gave it. When a dataset is closed and opened again, that id
// means nothing any more: the object is then found again by its name in its group. Safe from all threads.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "backends/api/source.h"
#include "backends/folder/datasets.h"

namespace codecfs::folder {

struct Object {
  EntryKind kind = EntryKind::folder;
  std::string name;         // of folders and files their key; of objects of a dataset the name in their group
  DatasetPtr dataset;       // null: a folder or file
  bool is_root = false;     // of the dataset
  ObjectId group = 0;       // that holds it, where it is not the root
  ObjectId inner = 0;       // the source's own id
  uint64_t generation = 0;  // of the dataset, for which `inner` holds
};

class ObjectIds {
 public:
  /// Of a folder or file.
  ObjectId of(const std::string& key, EntryKind kind);
  /// Of a dataset's root.
  ObjectId of_root(const DatasetPtr& dataset);
  /// Of an entry that was found in a group of a dataset.
  ObjectId of(ObjectId group, const DatasetPtr& dataset, uint64_t generation, const Entry& entry);

  /// ENOENT.
  Result<Object> get(ObjectId id) const;
  /// Whether an object is still what its group has under its name. ENOENT where it is removed.
  Result<> check_named(ObjectId id) const;
  /// What the dataset's present source calls the object.
  void renew(ObjectId id, ObjectId inner, uint64_t generation);
  /// A name in a group is nobody's any more.
  void removed(ObjectId group, std::string_view name);

 private:
  using Name = std::pair<ObjectId, std::string>;
  struct Inner {
    uint64_t generation = 0;
    std::unordered_map<ObjectId, ObjectId> ids;  // of the source's own
  };

  ObjectId add(Object object);

  mutable std::shared_mutex mutex_;  // guards all below
  std::deque<Object> objects_;
  std::unordered_map<std::string, ObjectId> by_key_;    // of folders and files
  std::unordered_map<const Dataset*, ObjectId> roots_;  // Objects keep their datasets
  std::unordered_map<const Dataset*, Inner> by_inner_;
  std::map<Name, ObjectId> by_name_;  // of objects of datasets
};

}  // namespace codecfs::folder
