#pragma once
// The ids of all objects of a mounted folder that were looked up: folders, files, and the objects of datasets.
//
// The source of a dataset assigns ids to its objects, which become invalid when the dataset is closed and reopened: the
// object must then be looked up by its name in its group.
//
// The ids of files and folders, of which there may be millions, last while they are kept. Others are given back when
// kMaxUnkept later ones were asked for, and kUnkept has passed: callers that got them have kept them by then, or look
// the name up again. This begins with the first call of keep(): a caller that keeps none may use all. No id is used
// twice. Thread-safe.

#include <chrono>
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

  /// See Source.
  bool keep(ObjectId id);
  void release(ObjectId id) noexcept;
  /// Gives back what may be.
  void drop_unkept();
  /// How many ids there are.
  [[nodiscard]] size_t count() const;

  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxUnkept = size_t{1} << 16;
  static constexpr std::chrono::seconds kUnkept{10};
  /// `now`: another one for tests.
  explicit ObjectIds(Clock::time_point (*now)() = &Clock::now) : now_(now) {}

 private:
  using Name = std::pair<ObjectId, std::string>;
  static constexpr ObjectId kFirstPlain = ObjectId{1} << 63;  // those below are of objects of datasets
  struct Inner {
    uint64_t generation = 0;
    std::unordered_map<ObjectId, ObjectId> ids;  // from the source's ids
  };

  /// What is known of a file or folder.
  struct Plain {
    Object object;
    uint64_t kept = 0;
    bool is_queued = false;     // in unkept_
    Clock::time_point asked{};  // the last time that the id was returned
  };

  ObjectId add(Object object) CODECFS_REQUIRES(mutex_);
  void queue(ObjectId id, Plain& plain) CODECFS_REQUIRES(mutex_);
  void erase(std::unordered_map<ObjectId, Plain>::iterator plain) CODECFS_REQUIRES(mutex_);
  bool drop_some() CODECFS_REQUIRES(mutex_);

  Clock::time_point (*const now_)();
  mutable SharedMutex mutex_;
  std::unordered_map<ObjectId, Plain> plain_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_map<std::string_view, ObjectId> by_key_ CODECFS_GUARDED_BY(mutex_);  // keys in plain_
  std::deque<ObjectId> unkept_ CODECFS_GUARDED_BY(mutex_);  // in which drop_some() looks; also some that are kept
  bool gives_back_ CODECFS_GUARDED_BY(mutex_) = false;
  uint64_t next_plain_ CODECFS_GUARDED_BY(mutex_) = kFirstPlain;
  ObjectId outdated_ CODECFS_GUARDED_BY(mutex_) = 0;       // ids below are those of a former dataset, but for roots
  std::deque<Object> objects_ CODECFS_GUARDED_BY(mutex_);  // of datasets, by id
  // The keys are valid, because Objects keep their datasets alive.
  std::unordered_map<const Dataset*, ObjectId> roots_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_map<const Dataset*, Inner> by_inner_ CODECFS_GUARDED_BY(mutex_);
  std::map<Name, ObjectId> by_name_ CODECFS_GUARDED_BY(mutex_);  // of objects of datasets
};

}  // namespace codecfs::folder
