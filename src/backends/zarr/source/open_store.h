#pragma once
// An open store: its groups and arrays by id, its open arrays, and the locks for the objects behind the keys.
//
// Everything is read on demand: a group is its directory, an array its metadata files, a chunk one file, each
// found by its path. Parsed metadata and pipelines of the most recently used arrays are cached.

#include <atomic>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/object_table.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/source/shard_reader.h"
#include "backends/zarr/store/store.h"
#include "base/fair_shared_mutex.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

class OpenStore {
 public:
  /// `path` is for messages. EINVAL if this is no Zarr store.
  static Result<std::unique_ptr<OpenStore>> open(const std::string& path, bool may_write, std::unique_ptr<Store> files);

  [[nodiscard]] const Store& files() const { return *files_; }
  [[nodiscard]] const Hierarchy& hierarchy() const { return hierarchy_; }
  /// The root: a group, or an array if the store is one.
  [[nodiscard]] const Entry& root() const { return root_; }
  /// Other programs may write the store at the same time. Must be called before it is used.
  void set_shared() { is_shared_ = true; }
  /// EROFS with the reason why nothing can be written.
  [[nodiscard]] Result<> writable() const;

  // --- Locks, in this order. Every use of a key requires using_keys() or changing_keys(), so that the objects at this
  // key are not moved, removed or exchanged meanwhile; decoding and encoding need no lock.

  /// Held by a commit, which may take long, and while directories are moved or removed.
  [[nodiscard]] std::unique_lock<Mutex> changing_places() { return std::unique_lock(places_mutex_); }
  [[nodiscard]] std::shared_lock<FairSharedMutex> using_keys() const { return std::shared_lock(keys_mutex_); }
  [[nodiscard]] std::unique_lock<FairSharedMutex> changing_keys() { return std::unique_lock(keys_mutex_); }

  // --- Objects

  /// ENOENT.
  [[nodiscard]] Result<Object> object(ObjectId id) const { return objects_.get(id); }
  /// ENOENT; ENOTDIR if it is not a group.
  [[nodiscard]] Result<Object> group(ObjectId id) const;
  [[nodiscard]] Entry entry_of(const std::string& group, std::string_view name, EntryKind kind);
  /// The member of a group with this entry name. ENOENT.
  Result<Entry> find(const Object& group, std::string_view name);

  // --- Arrays. ENOENT if there is none; EIO if its metadata is damaged.

  /// array() for readers of chunks: ESTALE if there is none, as ENOENT would mean that the chunk is not stored.
  Result<ArrayPtr> array_with_chunks(ObjectId id);

  /// The array as it was when it was last read: chunk numbers refer to its grid.
  Result<ArrayPtr> array(ObjectId id);
  /// Reads the array again. array() returns the new state only if .zarray is unchanged or the old state was dropped.
  Result<ArrayPtr> current_array(ObjectId id);
  /// Reads the array at a key; array() returns it from now on.
  Result<ArrayPtr> load_array_at(const std::string& key);
  /// array(), but ESTALE if its .zarray has changed: chunks that another program has added since must not be taken for
  /// leftovers.
  Result<ArrayPtr> unchanged_array(const Object& object, ObjectId id);
  /// array(), but the reason if its chunks cannot be written.
  Result<ArrayPtr> writable_array(ObjectId id);
  /// array() returns this state from now on.
  void keep(ObjectId id, const ArrayPtr& array);

  [[nodiscard]] ChunkListings& listings() { return listings_; }
  /// The listings of the shards of sharded arrays.
  [[nodiscard]] ChunkListings& shard_listings() { return shard_listings_; }
  [[nodiscard]] ShardReader& shards() { return shards_; }

  // --- Notifications of changes

  /// Another program has changed the array.
  void forget(ObjectId id, const std::string& key);
  /// The metadata or the chunks of an object were replaced.
  void changed(const Object& object);
  /// An object was removed; to be called also after a new one was created at the key, as another program may have
  /// removed one there.
  void removed(const std::string& key);
  void moved(const std::string& from, const std::string& to);
  /// Whether any of the three last functions was called since the last call of this one.
  bool take_changed() { return changed_.exchange(false); }
  void set_changed() { changed_ = true; }

 private:
  OpenStore(std::unique_ptr<Store> files, ZarrFormat format);
  Result<ArrayPtr> load(const std::string& key, ObjectId id);
  void drop_arrays(const std::vector<ObjectId>& ids);

  std::unique_ptr<Store> files_;
  Hierarchy hierarchy_;              // after files_, which it uses
  std::optional<Error> unwritable_;  // set at open
  bool is_shared_ = false;
  Entry root_;
  Mutex places_mutex_{LockRank::store_places};  // locked before keys_mutex_
  mutable FairSharedMutex keys_mutex_{
      LockRank::store_keys};  // shared: using a key; exclusive: changing the objects there
  ObjectTable objects_;
  LruMap<ObjectId, OpenArray> arrays_;
  ChunkListings listings_;
  ChunkListings shard_listings_;
  ShardReader shards_;
  std::atomic<bool> changed_ = false;
};

}  // namespace codecfs::zarr
