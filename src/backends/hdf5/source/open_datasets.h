#pragma once
// The open datasets of a file: opens each at its first use and closes the least recently used ones. Thread-safe.
//
// Lock order: the mutex of this class, the locks of a LibraryRead, the LibraryLock.

#include <list>
#include <memory>
#include <unordered_map>

#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/source/mounted_file.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::hdf5 {

using DatasetPtr = std::shared_ptr<Dataset>;

class OpenDatasets {
 public:
  /// `mounted` must outlive this object.
  explicit OpenDatasets(MountedFile& mounted) : mounted_(mounted) {}

  /// EISDIR if the object is a group; ENOENT; EIO.
  Result<DatasetPtr> get(ObjectId id);
  /// A dataset that is not outdated, for operations that cannot be retried.
  Result<DatasetPtr> current(ObjectId id);
  /// Calls `use` with the dataset; retries with a reopened one if it was outdated meanwhile.
  template <class Use>
  auto with(ObjectId id, const Use& use) -> decltype(use(std::declval<Dataset&>())) {
    constexpr int kTries = 32;  // each needs a change of the tree at the same time
    for (int round = 1;; ++round) {
      CODECFS_ASSIGN(const DatasetPtr dataset, get(id));
      auto result = use(*dataset);
      if (!dataset->outdated()) return result;
      forget(id);
      if (result || round == kTries) return result;
    }
  }
  void forget(ObjectId id);
  /// As long as this mutex is held, only its owner opens datasets, with get_locked().
  Mutex& mutex() CODECFS_RETURN_CAPABILITY(mutex_) { return mutex_; }
  Result<DatasetPtr> get_locked(ObjectId id) CODECFS_REQUIRES(mutex_);
  void close_all_locked() CODECFS_REQUIRES(mutex_);

 private:
  struct Opened {
    ObjectId id;
    DatasetPtr dataset;
    uint64_t bytes;  // memory_estimate() of its facts
  };
  void drop(std::list<Opened>::iterator opened) CODECFS_REQUIRES(mutex_);

  void show_record_shape(Dataset& dataset);

  MountedFile& mounted_;
  Mutex mutex_{LockRank::open_datasets};
  std::list<Opened> recent_ CODECFS_GUARDED_BY(mutex_);  // latest first
  uint64_t held_ CODECFS_GUARDED_BY(mutex_) = 0;         // their bytes
  std::unordered_map<ObjectId, std::list<Opened>::iterator> by_id_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::hdf5
