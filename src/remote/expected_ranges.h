#pragma once
// Ranges of an object that will be read soon: they are requested together, and kept until they are read. Thread-safe.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "remote/range_plan.h"
#include "remote/request_threads.h"

namespace codecfs::remote {

class ExpectedRanges {
 public:
  using Get = std::function<Result<Buffer>(const ByteRange&)>;

  /// `get`: requests a range. `most_bytes`: of what is requested and not read yet, of all that count in `all_bytes`;
  /// one request is possible until twice as many are reached. `threads` and `all_bytes` must outlive this.
  ExpectedRanges(Get get, RequestThreads& threads, uint64_t most_bytes, std::atomic<uint64_t>& all_bytes);
  /// Waits for its requests.
  ~ExpectedRanges();
  ExpectedRanges(const ExpectedRanges&) = delete;
  ExpectedRanges& operator=(const ExpectedRanges&) = delete;

  /// Begins to request what is not under way, and was not taken a moment ago. Does not wait; drops what there is no
  /// memory for.
  void expect(std::span<const ByteRange> ranges);
  /// The bytes of an expected range, once; waits for their request. None if it was not expected, or not in one piece:
  /// then the caller requests it.
  /// Errors are those of `get`; EINTR (Interruption of the thread: the range is expected as before).
  Result<std::optional<Buffer>> take(const ByteRange& range);

 private:
  using Clock = std::chrono::steady_clock;
  struct Window {
    ByteRange range;
    std::vector<ByteRange> expected;        // not read yet
    std::optional<Result<Buffer>> content;  // when it has arrived
    Clock::time_point made;
    size_t readers = 0;  // that wait
  };
  using WindowPtr = std::shared_ptr<Window>;

  struct Taken {
    ByteRange range;
    Clock::time_point when;
  };

  [[nodiscard]] bool is_known(const ByteRange& range) const CODECFS_REQUIRES(mutex_);
  [[nodiscard]] bool has_room(uint64_t bytes) const CODECFS_REQUIRES(mutex_);
  void change_bytes(int64_t difference) CODECFS_REQUIRES(mutex_);
  class Instances;
  void make_room(uint64_t needed) CODECFS_REQUIRES(mutex_);
  void drop_unread(uint64_t needed) CODECFS_REQUIRES(mutex_);
  void drop(const WindowPtr& window) CODECFS_REQUIRES(mutex_);
  void run(const WindowPtr& window);

  const Get get_;
  RequestThreads& threads_;
  const uint64_t most_bytes_;
  std::atomic<uint64_t>& all_bytes_;
  Mutex mutex_{LockRank::expected_ranges};
  ConditionVariable arrived_;
  std::list<WindowPtr> windows_ CODECFS_GUARDED_BY(mutex_);  // oldest first
  std::deque<Taken> taken_ CODECFS_GUARDED_BY(mutex_);       // the latest
  uint64_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;            // of windows_
  size_t running_ CODECFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace codecfs::remote
