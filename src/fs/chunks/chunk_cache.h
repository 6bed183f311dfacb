#pragma once
// A cache of decoded chunks that are being read.
//
// Concurrent readers of a chunk share one decode: the first decodes in its own thread, the others wait. A decoded chunk
// stays until the kernel has received all of its bytes (it is then in the page cache, and a second copy would waste
// memory) or until it is evicted, least recently used first. Errors are not cached: the next reader tries again.
//
// A chunk that was pushed to the kernel may still be requested, by READs that the kernel sent before it had the pages.
// So the last nine such chunks stay, but are evicted first.
//
// Memory: cached chunks take at most `limit` bytes, pushed ones among them at most a quarter of it. The estimated sizes
// of running decodes together also stay within `limit`; one decode is always admitted, so that a chunk of any size can
// be read.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/nodes/chunk_key.h"
#include "fs/nodes/stats.h"

namespace codecfs::fs {

class ChunkCache {
 public:
  ChunkCache(uint64_t limit_bytes, Stats& stats) : limit_(limit_bytes), stats_(stats) {}

  /// Returns the decoded chunk; calls `decode` if it is neither cached nor being decoded. `estimate`: approximate
  /// maximum of bytes for decoding it. EINTR: Interruption of the thread.
  Result<ChunkPtr> get(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode);
  /// Decodes the chunk into the cache, unless there is no room now or a reader has just finished with it. Returns the
  /// chunk if this call decoded it and no get() has requested it since; else null.
  ChunkPtr fetch(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode);
  /// As get(), for a caller that keeps the chunk in another place: it is not cached, unless get() requests it
  /// meanwhile.
  Result<ChunkPtr> get_uncached(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode);

  [[nodiscard]] uint64_t limit() const { return limit_; }  // bytes
  /// Whether get() has requested the chunk since it was cached.
  bool is_wanted(ChunkKey key);

  /// Drops a chunk that has changed. Readers waiting for a running decode still get its result; later readers do not.
  void drop(ChunkKey key);
  /// Drops the chunks of `count` consecutive keys.
  void drop(ChunkKey first, uint64_t count);
  /// Drops all forms of the chunks of `count` consecutive keys.
  void drop_forms(ChunkKey first, uint64_t count = 1) {
    drop(first, count);
    drop(first | kZarr3Form, count);
  }

  /// Counts `bytes` of the chunk that were passed to the kernel; drops the chunk when the kernel has all of them, and
  /// returns true.
  bool served(ChunkKey key, uint64_t bytes);
  /// The kernel has all of the chunk without having requested it. Only READs that are on their way may still request
  /// it.
  void done(ChunkKey key);

 private:
  struct Slot {
    bool ready = false;
    bool wanted = false;                // requested by get()
    bool dropped = false;               // must not be cached
    bool passing = false;               // decoded for get_uncached(): cached only if it is wanted
    bool pushed = false;                // in pushed_ instead of ages_
    Result<ChunkPtr> result;            // valid when ready
    uint64_t served = 0;                // bytes passed to the kernel
    std::list<ChunkKey>::iterator age;  // in ages_ or pushed_; valid when ready and kept
  };
  using SlotPtr = std::shared_ptr<Slot>;
  using Slots = std::unordered_map<ChunkKey, SlotPtr>;
  class Filling;
  /// Releases the mutex during `decode`.
  void decode_into(Filling& filling, uint64_t estimate, const std::function<Result<Buffer>()>& decode)
      CODECFS_REQUIRES(mutex_);
  /// Puts an empty slot in place, for which other threads wait until end_filling().
  SlotPtr begin_filling(ChunkKey key) CODECFS_REQUIRES(mutex_);
  /// `age`: an entry for ages_, if there is a result. Takes no memory.
  void end_filling(ChunkKey key, Slot& slot, Result<ChunkPtr> result, std::list<ChunkKey>& age)
      CODECFS_REQUIRES(mutex_);
  void drop(Slots::iterator slot) CODECFS_REQUIRES(mutex_);
  void make_room() CODECFS_REQUIRES(mutex_);
  void forget(ChunkKey key) CODECFS_REQUIRES(mutex_);
  void note_done(ChunkKey key) CODECFS_REQUIRES(mutex_);

  const uint64_t limit_;  // bytes
  Stats& stats_;
  Mutex mutex_;  // never held while decoding
  ConditionVariable changed_;
  Slots slots_ CODECFS_GUARDED_BY(mutex_);
  std::deque<ChunkKey> done_ CODECFS_GUARDED_BY(mutex_);   // most recently finished chunks
  std::list<ChunkKey> ages_ CODECFS_GUARDED_BY(mutex_);    // of cached chunks, most recently used first
  std::list<ChunkKey> pushed_ CODECFS_GUARDED_BY(mutex_);  // of cached chunks that the kernel has, latest first
  uint64_t kept_ CODECFS_GUARDED_BY(mutex_) = 0;           // bytes of cached chunks
  uint64_t kept_pushed_ CODECFS_GUARDED_BY(mutex_) = 0;    // bytes of those in pushed_
  uint64_t in_flight_ CODECFS_GUARDED_BY(mutex_) = 0;      // estimated bytes of running decodes
};

}  // namespace codecfs::fs
