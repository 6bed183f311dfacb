#pragma once
// The datasets of a mounted folder. Each is opened at its first use; if too many are open, the least recently used one
// is closed, because each takes descriptors and memory. A file with several names is one dataset: writing it through
// two Sources would corrupt it. Thread-safe.
//
// A written dataset that is moved stays open and is written at its new path. If its file is deleted or replaced, the
// new file is another dataset, and the old one is closed, which commit() or finish() reports (Source::finish()).

#include <chrono>
#include <cstdint>
#include <ctime>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/folder/folder_files.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::folder {

class Dataset;
using DatasetPtr = std::shared_ptr<Dataset>;

class Datasets {
 public:
  static constexpr size_t kMaxOpen = 32;
  /// Idle time after which a dataset that is only read is closed: its lock keeps other programs from writing it.
  static constexpr std::chrono::seconds kReadingRest{5};

  /// `files` must outlive this object.
  Datasets(const FolderFiles& files, bool may_write) : files_(files), may_write_(may_write) {}

  /// The dataset found at a key. A file that has changed while it was not open is a new dataset.
  DatasetPtr at(const std::string& key, const Found& found);
  /// The key under which it is shown: for a file with several names, the one that was looked up first.
  std::string key_of(const Dataset& dataset) const;
  [[nodiscard]] struct stat status_of(const Dataset& dataset) const;

  /// Keeps a dataset open. `generation` counts how often it was opened; ids from earlier generations are invalid.
  struct Use {
    std::shared_ptr<Source> source;
    uint64_t generation = 0;
  };
  /// EIO with the reason if the dataset cannot be opened; ESTALE if the file was replaced.
  enum class For { reading, writing };
  Result<Use> use(const DatasetPtr& dataset, For purpose);
  /// A dataset that is open already.
  DatasetPtr adopt(const std::string& key, const Found& found, std::shared_ptr<Source> source);
  /// A dataset that was closed is another one from now on; null if it is open. The former one is ESTALE.
  DatasetPtr replace(const DatasetPtr& former, const std::string& key, const Found& found);
  bool is_open(const Dataset& dataset) const;
  /// None if it is not open.
  std::optional<Use> use_if_open(const DatasetPtr& dataset);

  /// Closes datasets that were idle for `unused_for` (if only read: for kReadingRest), because an open dataset is
  /// locked against other writers. Relocates the logs of moved ones.
  void close_unused(std::chrono::seconds unused_for);

  uint64_t reclaimable_bytes();
  /// Commits all open datasets and returns the first error, which names the file; also reports errors of datasets that
  /// were closed since the last call. ESTALE if one was deleted or replaced after it was written: it is closed.
  Result<> commit();
  /// See Source::is_deleted().
  bool has_deleted();
  /// The periodic commit, for which no caller waits: the next commit() reports lost writes again.
  Result<> commit_at_interval();
  Result<> finish();

 private:
  /// A dataset that is being closed; `opening` keeps other threads from opening it.
  struct Closing {
    DatasetPtr dataset;
    std::shared_ptr<Source> source;
    std::unique_lock<Mutex> opening;
  };
  Use take(Dataset& dataset, For purpose) CODECFS_REQUIRES(mutex_);
  std::optional<Closing> take_to_close(const DatasetPtr& dataset) CODECFS_REQUIRES(mutex_);
  std::vector<Closing> take_surplus() CODECFS_REQUIRES(mutex_);
  std::vector<Closing> take_unused(std::chrono::seconds unused_for) CODECFS_REQUIRES(mutex_);
  void close(Closing closing) CODECFS_EXCLUDES(mutex_);
  void close_replaced(const std::string& key, const Dataset& replacement) CODECFS_EXCLUDES(mutex_);
  void close_deleted(const DatasetPtr& dataset) CODECFS_EXCLUDES(mutex_);
  Result<> commit_all() CODECFS_EXCLUDES(mutex_);
  [[nodiscard]] Result<std::shared_ptr<Source>> open(const std::string& key, const Found& expected) const;
  struct Open {
    DatasetPtr dataset;
    std::string key;
    std::shared_ptr<Source> source;
  };
  std::vector<Open> all_open();
  std::optional<Error> take_lost();

  const FolderFiles& files_;
  const bool may_write_;
  mutable Mutex mutex_{LockRank::datasets};  // also guards the members of datasets that say so
  std::map<std::pair<dev_t, ino_t>, DatasetPtr> datasets_ CODECFS_GUARDED_BY(mutex_);
  std::list<DatasetPtr> open_ CODECFS_GUARDED_BY(mutex_);  // most recently used first
  std::optional<Error> lost_ CODECFS_GUARDED_BY(mutex_);   // error of closing a dataset, not yet reported
};

class Dataset {
 public:
  Dataset(std::string key, const Found& found) : kind(found.kind), key_(std::move(key)), status_(found.status) {}

  const EntryKind kind;  // of its root

 private:
  friend class Datasets;

  Mutex opening_{LockRank::opening_dataset};  // held while opening or closing; locked before Datasets::mutex_
  std::string key_;                           // guarded by Datasets::mutex_, as all below
  struct stat status_;                        // at the last lookup
  std::shared_ptr<Source> source_;            // null: not open
  std::list<DatasetPtr>::iterator place_;
  uint64_t generation_ = 0;
  std::chrono::steady_clock::time_point used_;
  bool written_ = false;          // since it was opened; the file's changes are then our own
  bool retired_ = false;          // another dataset has replaced it
  std::optional<Error> refusal_;  // why it cannot be opened; valid until its file changes
};

}  // namespace codecfs::folder
