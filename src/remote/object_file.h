#pragma once
// One object that is read in parts, in the state that it had when it was opened. Thread-safe.
//
// Two kinds of bytes: what a format needs to find its way (fetch(): small, read again and again, in no predictable
// order) stays in a mirror, which other processes may read, too; data (read()) is handed over once. What will be read
// soon can be told before (expect(), and the hints of a format), so that many requests run at a time.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/interruption.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/shared_mirror.h"
#include "remote/disk_cache.h"
#include "remote/expected_ranges.h"
#include "remote/object_client.h"
#include "remote/range_plan.h"
#include "remote/request_threads.h"

namespace codecfs::remote {

class ObjectFile {
 public:
  /// What bytes of the object that have arrived point at, so that it will be needed, too. It may err: that costs
  /// requests. Called from several threads.
  using Hints = std::function<std::vector<ByteRange>(uint64_t offset, Bytes bytes)>;

  /// Requests the beginning of the object. `name`: for messages. ENOENT; EOPNOTSUPP if the server cannot send parts, or
  /// says nothing by which states of the object differ; the errors of ObjectClient. `cache`: may be null.
  static Result<std::unique_ptr<ObjectFile>> open(std::shared_ptr<ObjectClient> client, const std::string& key,
                                                  const std::string& name, size_t connections,
                                                  std::shared_ptr<DiskCache> cache = nullptr);
  /// Ends all requests.
  ~ObjectFile();
  ObjectFile(const ObjectFile&) = delete;
  ObjectFile& operator=(const ObjectFile&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint64_t size() const { return mirror_.size(); }
  [[nodiscard]] int64_t modified() const { return modified_; }  // Unix time; 0 if unknown
  [[nodiscard]] const SharedMirror& mirror() const { return mirror_; }
  /// From now on; begins with the first bytes of the object.
  void use_hints(Hints hints);
  /// Begins to fetch these ranges and what hints say of them, and of what arrives later: so many that their bytes
  /// matter more than the number of requests. Does not wait.
  void fetch_many_hinted(std::vector<ByteRange> wanted);

  using Done = std::function<void(const Result<>&)>;
  /// Calls `done`, perhaps before it returns, when these bytes were in the mirror; they may be dropped later, where
  /// there are too many. Errors: EIO beyond the end; ESTALE if the object was replaced; those of ObjectClient.
  void fetch(const ByteRange& range, Done done);
  /// Waits as fetch() would, and reads the bytes. EINTR: Interruption of the thread.
  Result<> read_mirrored(uint64_t offset, MutableBytes to);
  /// Reads bytes that are not kept. Errors as of fetch().
  Result<Buffer> read(uint64_t offset, uint64_t size);
  /// These ranges will be read() soon, each once.
  void expect(std::span<const ByteRange> ranges);

 private:
  struct Waiter;
  using WaiterPtr = std::shared_ptr<Waiter>;
  /// Consecutive pages of the mirror that are there, or under way.
  struct Extent {
    uint64_t end = 0;
    bool is_there = false;
    std::vector<WaiterPtr> waiters;
    std::list<uint64_t>::iterator age{};  // in ages_, if it is there
  };
  using Extents = std::map<uint64_t, Extent>;  // by begin; disjoint

  ObjectFile(std::shared_ptr<ObjectClient> client, std::string key, std::string name, SharedMirror mirror,
             size_t connections);
  Result<Buffer> get(const ByteRange& range) const;
  /// How much more than is missing is requested: what a sequential reader will want, or whole blocks.
  enum class Growth { none, sequential, blocks };
  std::vector<ByteRange> plan(const ByteRange& range, Growth growth, const WaiterPtr& waiter) CODECFS_REQUIRES(mutex_);
  ByteRange grown(ByteRange missing) CODECFS_REQUIRES(mutex_);
  void count_read(bool was_in_memory) const;
  Result<Buffer> get_in_thread(const ByteRange& range) const;
  /// One request for extents, by offset: what is between them is not kept.
  struct Request {
    ByteRange range;
    std::vector<ByteRange> extents;
  };
  /// One for each extent.
  void start(const std::vector<ByteRange>& extents);
  void start(Request request);
  void run(const Request& request);
  void fetch_hinted(std::vector<ByteRange> wanted);
  /// Requests for hinted parts that are missing, and waiters for those that are under way in pieces.
  std::vector<Request> plan_hinted(std::vector<ByteRange> parts, std::vector<WaiterPtr>& complete)
      CODECFS_REQUIRES(mutex_);
  [[nodiscard]] std::vector<ByteRange> hints_of(const ByteRange& range, Bytes bytes);
  void note_arrival(Extents::iterator extent) CODECFS_REQUIRES(mutex_);
  void drop_oldest() CODECFS_REQUIRES(mutex_);

  std::atomic<bool> is_ending_ = false;
  const Interruption::Check ends_ = [this] { return is_ending_.load(); };  // of requests in threads_
  const std::shared_ptr<ObjectClient> client_;
  const std::string key_;
  const std::string name_;
  std::shared_ptr<DiskCache> cache_;           // null if there is none
  std::unique_ptr<DiskCache::Object> cached_;  // what it has of the object; null if there is none
  std::string etag_;
  int64_t modified_ = 0;
  SharedMirror mirror_;
  std::atomic<bool> hints_are_many_ = false;
  Mutex mutex_;
  Extents extents_ CODECFS_GUARDED_BY(mutex_);
  std::list<uint64_t> ages_ CODECFS_GUARDED_BY(mutex_);    // begins of extents that are there, oldest first
  uint64_t mirrored_ CODECFS_GUARDED_BY(mutex_) = 0;       // bytes that are there
  uint64_t end_of_latest_ CODECFS_GUARDED_BY(mutex_) = 0;  // of what was missing when it was asked for
  uint64_t request_bytes_ CODECFS_GUARDED_BY(mutex_);      // of the next such request
  uint64_t beside_hints_ CODECFS_GUARDED_BY(mutex_) = 0;   // bytes that were requested with what hints said
  std::shared_ptr<const Hints> hints_ CODECFS_GUARDED_BY(mutex_);
  RequestThreads threads_;   // last but one: their work uses all above
  ExpectedRanges expected_;  // its requests run in threads_
};

}  // namespace codecfs::remote
