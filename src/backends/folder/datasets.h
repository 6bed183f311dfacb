#pragma once
// The datasets of a mounted folder: each is opened when it is first used, and the one that was used longest ago is
// closed again when there are too many, as each takes descriptors and memory of its library. One file is one dataset,
// whatever names it has: to write it twice at a time would destroy it. Safe from all threads.
//
// One that was written and then moved is written where it is now. One that was deleted or replaced is another dataset:
// what was written to it and not committed is lost, which commit() or finish() tells.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/folder/folder_files.h"
#include "base/result.h"

namespace codecfs::folder {

class Dataset;
using DatasetPtr = std::shared_ptr<Dataset>;

class Datasets {
 public:
  static constexpr size_t kMaxOpen = 32;
  /// One that is only read is closed after so long without use: its lock keeps other programs from writing it.
  static constexpr std::chrono::seconds kReadingRest{5};

  /// `files` outlives this.
  Datasets(const FolderFiles& files, bool may_write) : files_(files), may_write_(may_write) {}

  /// The dataset that was found at a key. A file that is not open and was changed since, is another one.
  DatasetPtr at(const std::string& key, const Found& found);
  /// The key by which it is shown: where a file has several names, that of these which was met first.
  std::string key_of(const Dataset& dataset) const;
  [[nodiscard]] struct stat status_of(const Dataset& dataset) const;

  /// A dataset in use stays open. `generation` counts how often it was opened: ids that it gave before mean nothing.
  struct Use {
    std::shared_ptr<Source> source;
    uint64_t generation = 0;
  };
  /// EIO with the reason where it cannot be opened; ESTALE where it is another one now.
  enum class For { reading, writing };
  Result<Use> use(const DatasetPtr& dataset, For purpose);
  /// None where it is not open.
  std::optional<Use> use_if_open(const DatasetPtr& dataset);

  /// Closes those that were not used for so long (that are only read: for kReadingRest), as an open one is locked
  /// against other writers. Sees to what lies beside those that were moved.
  void close_unused(std::chrono::seconds unused_for);

  uint64_t reclaimable_bytes();
  /// Of all that are open; the first error, which names the file. Also of those that were closed meanwhile. ESTALE
  /// where one is gone, with what was written to it.
  Result<> commit();
  /// The same where nobody waits for it: what was lost will be told by the next commit() too.
  Result<> commit_at_interval();
  Result<> finish();

 private:
  /// One that is being closed; nobody opens it meanwhile.
  struct Closing {
    DatasetPtr dataset;
    std::shared_ptr<Source> source;
    std::unique_lock<std::mutex> opening;
  };
  // Under mutex_:
  Use take(Dataset& dataset, For purpose);
  std::optional<Closing> take_to_close(const DatasetPtr& dataset);
  std::vector<Closing> take_surplus();
  std::vector<Closing> take_unused(std::chrono::seconds unused_for);
  // Without it:
  void close(Closing closing);
  void make_way(const std::string& key, const Dataset& comer);
  void abandon(const DatasetPtr& dataset);
  Result<> commit_all();
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
  mutable std::mutex mutex_;  // guards all below, and in datasets what it says there
  std::map<std::pair<dev_t, ino_t>, DatasetPtr> datasets_;
  std::list<DatasetPtr> open_;  // most recently used first
  std::optional<Error> lost_;   // what could not be stored when one was closed, not yet told
};

class Dataset {
 public:
  Dataset(std::string key, const Found& found) : kind(found.kind), key_(std::move(key)), status_(found.status) {}

  const EntryKind kind;  // of its root

 private:
  friend class Datasets;

  std::mutex opening_;              // held by who opens or closes it; before Datasets::mutex_
  std::string key_;                 // guarded by Datasets::mutex_, as all below
  struct stat status_;              // when it was last looked at
  std::shared_ptr<Source> source_;  // null: not open
  std::list<DatasetPtr>::iterator place_;
  uint64_t generation_ = 0;
  std::chrono::steady_clock::time_point used_;
  bool written_ = false;          // since it was opened; while it is so, changes of the file are ours
  bool retired_ = false;          // another dataset has taken its place
  std::optional<Error> refusal_;  // why it cannot be opened, as long as its file is the same
};

}  // namespace codecfs::folder
