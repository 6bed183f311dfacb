#pragma once
// Executes the file calls of the processes that run libhdf5 for one file, one process after the other, as FilePolicy
// allows them. Thread-safe.
//
// It also keeps the lock on the source. The process locks a description of the file that the broker has opened, too
// (flock(2)): the lock survives a killed process, and the next one gets the same description.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "backends/worker/file_policy.h"
#include "base/file_calls.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace codecfs::worker {

class FileBroker {
 public:
  /// `source`: the file, open for reading.
  FileBroker(FileRules rules, UniqueFd source) : policy_(std::move(rules), std::move(source)) {}

  FileAnswer execute(const FileCalls& calls, const FileCall& call);
  /// Why a file was refused to this thread of the process since the last call of this function. Empty: none was.
  std::string take_refusal(uint32_t thread);
  /// Whether a descriptor of the process refers to the source.
  [[nodiscard]] bool is_source(const UniqueFd& fd) const;
  /// Whether the lock for writing is held.
  [[nodiscard]] bool holds_lock();

 private:
  using Identity = std::pair<dev_t, ino_t>;

  Result<FileAnswer> dispatch(const FileCalls& calls, const FileCall& call);
  Result<FileAnswer> open(const FileCalls& calls, const FileCall& call);
  Result<FileAnswer> open_for_writing(const FileCall& call);
  Result<FileAnswer> describe(const FileCall& call);
  Result<FileAnswer> read_link(const FileCalls& calls, const FileCall& call);
  Result<FileAnswer> rename(const FileCall& call);
  Result<FileAnswer> get_attribute(const FileCall& call);
  Result<FileAnswer> change_attribute(const FileCall& call);
  Result<FileAnswer> change_owner(const FileCall& call);
  Result<FileAnswer> lock(const FileCalls& calls, const FileCall& call);
  void note_refusal(const FileCall& call, const std::string& reason);

  FilePolicy policy_;
  Mutex mutex_{LockRank::file_broker};
  UniqueFd locked_ CODECFS_GUARDED_BY(mutex_);  // the source, open for writing
  bool holds_lock_ CODECFS_GUARDED_BY(mutex_) = false;
  std::set<Identity> made_ CODECFS_GUARDED_BY(mutex_);                   // files that were made for the process
  std::map<uint32_t, std::string> refusals_ CODECFS_GUARDED_BY(mutex_);  // by thread
  std::set<std::string> logged_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::worker
