#pragma once
// Decoded chunks on their way to the kernel.
//
// A chunk is decoded once, however many readers ask for it at the same time (single flight): the first decodes in its
// own thread, the others wait for it. A decoded chunk is kept until the kernel has been given all of its bytes (then
// the page cache has it, and keeping it twice would be waste) or until room is needed, least recently used first.
// Errors are not kept: the next reader tries again.
//
// Memory: kept chunks are at most `limit` bytes. Decodes under way are admitted while their estimated bytes together
// stay within `limit` too; one is always admitted, so that a chunk of any size can be read.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/buffer.h"
#include "base/result.h"
#include "fs/chunks/stats.h"

namespace codecfs::fs {

/// Inode number of the chunk's file.
using ChunkKey = uint64_t;
using ChunkPtr = std::shared_ptr<const Buffer>;

class ChunkCache {
 public:
  ChunkCache(uint64_t limit_bytes, Stats& stats) : limit_(limit_bytes), stats_(stats) {}

  /// The decoded chunk; calls `decode` if nobody has it. `estimate`: bytes that decoding it takes at most, roughly.
  Result<ChunkPtr> get(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode);
  /// Sees to it that the chunk is here, unless there is no room for it now, or a reader has just been done with it.
  /// The chunk where it was decoded for this and nobody has asked for it since; else null.
  ChunkPtr fetch(ChunkKey key, uint64_t estimate, const std::function<Result<Buffer>()>& decode);

  /// Whether somebody has asked for it by get() since it is here.
  bool is_wanted(ChunkKey key);

  /// Forgets the chunk, which has changed. Who waits for its decoding gets what comes of it; nobody after that.
  void drop(ChunkKey key);
  /// The same for `count` in a row.
  void drop(ChunkKey first, uint64_t count);

  /// Tells that `bytes` of the chunk were handed to the kernel; when it has all of them the chunk is dropped.
  void served(ChunkKey key, uint64_t bytes);
  /// Drops a chunk that is not asked for again soon.
  void done(ChunkKey key);

 private:
  struct Slot {
    bool ready = false;
    bool wanted = false;                // somebody has asked for it by get()
    bool dropped = false;               // not to be kept
    Result<ChunkPtr> result;            // valid when ready
    uint64_t served = 0;                // bytes handed to the kernel
    std::list<ChunkKey>::iterator age;  // valid when ready and kept
  };
  void decode_into(const std::shared_ptr<Slot>& slot, ChunkKey key, uint64_t estimate,
                   const std::function<Result<Buffer>()>& decode, std::unique_lock<std::mutex>& lock);
  void make_room();
  void forget(ChunkKey key);
  void note_done(ChunkKey key);

  const uint64_t limit_;  // bytes
  Stats& stats_;
  std::mutex mutex_;  // guards everything below; never held while decoding
  std::condition_variable changed_;
  std::unordered_map<ChunkKey, std::shared_ptr<Slot>> slots_;
  std::deque<ChunkKey> done_;  // chunks that readers were done with most recently
  std::list<ChunkKey> ages_;   // of kept chunks, most recently used first
  uint64_t kept_ = 0;          // bytes of kept chunks
  uint64_t in_flight_ = 0;     // estimated bytes of decodes under way
};

}  // namespace codecfs::fs
