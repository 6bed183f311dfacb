#pragma once
// -o idle=: an idle mount closes its source and stays mounted; the next request opens it again.
//
// Requests that need the source hold a shared lock (Use); the source is closed and opened under the exclusive lock,
// when no such request runs. Before that, the kernel's pages are dropped, and what it remembers of names and attributes
// has expired (most_remembered()), so that all later uses are requests. If another program has changed the source
// meanwhile, everything that the kernel knows is ESTALE: open files, directories, and inodes but for the roots of
// views. It is never ENOENT, which readers of Zarr take for chunks that are all fill value. Thread-safe.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <shared_mutex>
#include <stop_token>

#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::fs {

struct Mount;

/// A getxattr of this name on the root makes an unused source rest at once: EBUSY if it stays in use for
/// a second.
inline constexpr const char* kRestXattr = "user._Rest";

class SourceRest {
 public:
  /// `after`: the time without use after which the source rests.
  SourceRest(Mount& mount, std::chrono::seconds after) : mount_(mount), after_(after) {}
  SourceRest(const SourceRest&) = delete;
  SourceRest& operator=(const SourceRest&) = delete;

  /// Keeps the source open during its lifetime.
  using Use = std::shared_lock<SharedMutex>;
  /// Must be called before a request uses the source: opens it if it rests. ESTALE if it is gone, and other errors of
  /// opening it.
  Result<> use(Use& held);

  /// Lets the source rest while it is not used, until a stop is requested.
  void run(const std::stop_token& stop);
  /// Has run() try it now, and waits for that, some seconds at most. EBUSY.
  Result<> request_now();

  /// Seconds for which the kernel may remember names and attributes.
  [[nodiscard]] double most_remembered() const;
  [[nodiscard]] bool is_resting() const { return resting_; }

 private:
  enum class Outcome : uint8_t { rests, in_use, failed };
  Outcome try_to_rest();
  Outcome try_to_close();
  [[nodiscard]] bool is_written();
  Result<> wake() CODECFS_REQUIRES(lock_);
  void outdate_all();

  Mount& mount_;
  const std::chrono::seconds after_;
  SharedMutex lock_{LockRank::source_rest};    // before all other locks
  std::atomic<bool> resting_ = false;          // changes under the exclusive lock
  alignas(64) std::atomic<bool> used_ = true;  // set by each use

  Mutex requests_mutex_;
  std::condition_variable_any requested_;
  uint64_t requests_ CODECFS_GUARDED_BY(requests_mutex_) = 0;  // calls of request_now()
  uint64_t answered_ CODECFS_GUARDED_BY(requests_mutex_) = 0;
  bool rests_ CODECFS_GUARDED_BY(requests_mutex_) = false;  // the answer
};

}  // namespace codecfs::fs
