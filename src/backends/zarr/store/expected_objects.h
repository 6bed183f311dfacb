#pragma once
// Objects that will be read soon: each is requested at once, in threads that only wait for the network, and is kept
// until it is read. Thread-safe.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/interruption.h"
#include "base/mutex.h"
#include "base/result.h"
#include "remote/object_client.h"
#include "remote/request_threads.h"

namespace codecfs::zarr {

class ExpectedObjects {
 public:
  using Clock = std::chrono::steady_clock;
  using PartPtr = std::shared_ptr<const remote::ObjectPart>;
  /// What a request has found: null, if there is no such object.
  struct Found {
    PartPtr part;
    std::function<bool()> is_current;  // whether this program has not written the object since the request began
  };
  /// Requests an object. Called from several threads; its Interruption is the end of this object.
  using Get = std::function<Result<Found>(const std::string& key)>;

  /// `statistics` counts the bytes of all objects of the process, which are bounded together; it must outlive this.
  ExpectedObjects(Get get, remote::RequestStatistics& statistics);
  /// Ends its requests.
  ~ExpectedObjects();
  ExpectedObjects(const ExpectedObjects&) = delete;
  ExpectedObjects& operator=(const ExpectedObjects&) = delete;

  /// Begins to request what is not under way, and was not taken a moment ago; drops what there is no memory for.
  /// Does not wait. `most_bytes`: that each request should return; larger objects are dropped when they come, if there
  /// is no memory for them.
  void expect(std::span<const std::string> keys, uint64_t most_bytes);
  /// What was found of an expected object; waits for its request. None if it was not expected, or was written since:
  /// then the caller requests it. That there is no such object is told for 5 s. Errors are those of `get`, once; EINTR
  /// (Interruption of the thread).
  Result<std::optional<PartPtr>> look(const std::string& key);
  /// As look(), once, if there is such an object.
  Result<std::optional<PartPtr>> take(const std::string& key);
  /// This program has changed the object: what was read of it before is not used.
  void forget(const std::string& key);

 private:
  struct Entry {
    uint64_t bytes = 0;  // reserved, and then those that there are
    Clock::time_point made;
    bool is_void = false;  // forgotten
    size_t readers = 0;    // that wait
    std::optional<Result<PartPtr>> content;
  };
  using EntryPtr = std::shared_ptr<Entry>;
  using Entries = std::map<std::string, EntryPtr, std::less<>>;
  struct Taken {
    std::string key;
    Clock::time_point when;
  };

  Result<std::optional<PartPtr>> wait_for(const std::string& key, bool is_last);
  void note_taken(const std::string& key) CODECFS_REQUIRES(mutex_);
  [[nodiscard]] static bool is_outdated(const Entry& entry);
  [[nodiscard]] bool make_room(uint64_t bytes) CODECFS_REQUIRES(mutex_);
  void set_bytes(Entry& entry, uint64_t bytes) CODECFS_REQUIRES(mutex_);
  Entries::iterator drop(Entries::iterator entry) CODECFS_REQUIRES(mutex_);
  void run(const std::string& key, const EntryPtr& entry);

  const Get get_;
  remote::RequestStatistics& statistics_;
  std::atomic<bool> is_ending_ = false;
  const Interruption::Check ends_ = [this] { return is_ending_.load(); };
  Mutex mutex_{LockRank::expected_objects};
  ConditionVariable arrived_;
  Entries entries_ CODECFS_GUARDED_BY(mutex_);
  std::deque<Taken> taken_ CODECFS_GUARDED_BY(mutex_);  // the latest
  uint64_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;       // of entries_
  remote::RequestThreads threads_;                      // last: their work uses all above
};

}  // namespace codecfs::zarr
