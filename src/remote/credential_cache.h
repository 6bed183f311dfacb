#pragma once
// Keeps credentials and renews them 5 minutes before they expire.
//
// One caller at a time looks for new ones. The others use the present ones while these are valid, and wait otherwise.
// Thread-safe.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "remote/credentials.h"

namespace codecfs::remote {

class CredentialCache : public CredentialProvider {
 public:
  using Time = std::chrono::system_clock::time_point;
  /// `find` may wait; it is called without locks.
  explicit CredentialCache(std::function<Result<Credentials>()> find,
                           std::function<Time()> now = std::chrono::system_clock::now);

  Result<Credentials> get() override;
  void refused(const Credentials& credentials) override;

 private:
  /// A search, and its result for those that wait.
  struct Search {
    bool has_ended = false;  // guarded by the mutex of the cache, as is this:
    Result<Credentials> result;
  };
  [[nodiscard]] bool is_valid(Time now) const CODECFS_REQUIRES(mutex_);
  Result<Credentials> finish(Search& search, Result<Credentials> found) CODECFS_REQUIRES(mutex_);

  const std::function<Result<Credentials>()> find_;
  const std::function<Time()> now_;
  Mutex mutex_;
  ConditionVariable ended_;
  std::optional<Credentials> present_ CODECFS_GUARDED_BY(mutex_);
  std::optional<Time> renewal_ CODECFS_GUARDED_BY(mutex_);     // of present_; none: never
  std::shared_ptr<Search> search_ CODECFS_GUARDED_BY(mutex_);  // null: none is running
};

}  // namespace codecfs::remote
