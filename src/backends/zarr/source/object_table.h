#pragma once
// The ids and current keys of objects that were looked up. An id keeps referring to its object after a move; ids of
// removed objects are never reused. Thread-safe.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "backends/zarr/store/store.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

struct Object {
  std::string key;  // of its directory
  EntryKind kind;
};

/// Ids are indexes into a list that only grows: one entry per object that was looked up.
class ObjectTable {
 public:
  ObjectId id_of(const std::string& key, EntryKind kind) {
    const LockGuard lock(mutex_);
    const auto [place, is_new] = ids_.try_emplace(key, objects_.size());
    if (is_new) {
      objects_.push_back({{key, kind}, true});
    } else {
      objects_[place->second].object.kind = kind;
    }
    return place->second;
  }

  /// ENOENT.
  Result<Object> get(ObjectId id) const {
    const SharedLock lock(mutex_);
    if (id >= objects_.size()) return fail(ENOENT, "no object has the number {}", id);
    if (!objects_[id].exists) return fail(ENOENT, "{}: was removed", objects_[id].object.key);
    return objects_[id].object;
  }

  /// The objects at `key` and below it were removed: returns their ids.
  std::vector<ObjectId> remove(const std::string& key) {
    const LockGuard lock(mutex_);
    std::vector<ObjectId> removed = ids_below(key);
    for (const ObjectId id : removed) {
      ids_.erase(objects_[id].object.key);
      objects_[id].exists = false;
    }
    return removed;
  }

  /// The objects at `from` and below it were moved to `to`: returns their ids.
  std::vector<ObjectId> move(const std::string& from, const std::string& to) {
    const LockGuard lock(mutex_);
    std::vector<ObjectId> moved = ids_below(from);
    for (const ObjectId id : moved) {
      std::string& key = objects_[id].object.key;
      ids_.erase(key);
      key.replace(0, from.size(), to);
      ids_[key] = id;
    }
    return moved;
  }

 private:
  struct Row {
    Object object;
    bool exists;
  };

  std::vector<ObjectId> ids_below(const std::string& key) const CODECFS_REQUIRES_SHARED(mutex_) {
    std::vector<ObjectId> ids;
    if (const auto itself = ids_.find(key); itself != ids_.end() && !key.empty()) ids.push_back(itself->second);
    const std::string below = key.empty() ? key : key + "/";
    for (auto at = ids_.lower_bound(below); at != ids_.end() && at->first.starts_with(below); ++at)
      ids.push_back(at->second);
    return ids;
  }

  mutable SharedMutex mutex_;
  std::deque<Row> objects_ CODECFS_GUARDED_BY(mutex_);
  std::map<std::string, ObjectId> ids_ CODECFS_GUARDED_BY(mutex_);  // of existing objects
};

}  // namespace codecfs::zarr
