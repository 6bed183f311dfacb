#pragma once
// Decoded chunks in backing files, which the kernel reads in place of the chunks' files.
//
// A chunk's file is made once, with one write, and never changes. Its pages are never used for another chunk: a pipe or
// socket may still have them after every reader has closed the file (splice, sendfile). All files together take at most
// `budget` bytes of memory, which the system cannot reclaim.
//
// Policy::always: the least recently used files that are not open go for a new one.
// Policy::if_better: a chunk gets a file only if that is not worse than to have it in the page cache. Files take less
// where new memory is dear (MemoryGrowth). Without room for a new file, a file that has been read and can be made again
// as fast as it could be copied goes, the least recently used first. Other files stay, as the page cache keeps chunks,
// until so many others were read that the page cache would not have them either: the new chunk goes into the page cache
// then.
//
// Under memory pressure the limit is halved, and doubled again when there was none for a while. At least as much as
// the budget is left to other programs, so that many mounts do not take all memory.
//
// A mapping keeps the memory of a file beyond its last close. That memory is not counted here: it is bounded by the
// size of the filesystem that holds the files, and store() fails with ENOSPC.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/meters.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/nodes/chunk_key.h"
#include "fs/nodes/stats.h"
#include "fs/passthrough/backing_device.h"
#include "fs/passthrough/memory_growth.h"

namespace codecfs::fs {

/// Thread-safe.
class BackingFiles {
 public:
  using Clock = std::chrono::steady_clock;
  /// Decodes the chunk. Called without locks.
  using Produce = std::function<Result<ChunkPtr>()>;

  enum class Policy : uint8_t { always, if_better };

  /// `available`: the bytes that programs can still get. Called without locks, from time to time.
  BackingFiles(BackingDevice& device, uint64_t budget, std::function<uint64_t()> available, Stats& stats,
               Policy policy = Policy::always, Meters meters = Meters::real());
  BackingFiles(const BackingFiles&) = delete;
  BackingFiles& operator=(const BackingFiles&) = delete;

  /// The chunk's file, which stays while the result exists; null if it is not there now.
  BackingPtr find(ChunkKey key);
  /// Whether the chunk's file is being made.
  bool is_coming(ChunkKey key);
  /// Whether it is there or being made.
  bool has(ChunkKey key);
  /// As find(), but makes the file if it is not there, or waits for the thread that makes it. `bytes`: size of the
  /// chunk. Null if it cannot be made: the chunk cannot be decoded, there is no room, or the kernel refuses the file.
  BackingPtr get(ChunkKey key, uint64_t bytes, const Produce& produce);
  /// Makes the file ahead of its reader, unless it is there or being made. False if it cannot be made.
  bool make(ChunkKey key, uint64_t bytes, const Produce& produce);

  /// Bytes of the largest chunk that is worth a file: several of them have room.
  [[nodiscard]] uint64_t max_chunk_bytes() const { return budget_ / 4; }
  /// To be called when there is too little memory: gives half of it back, and takes no more than that for a while.
  void shrink(Clock::time_point now = Clock::now());
  /// No more calls of the device, which ends with all its files. Must be called when no other function runs; only
  /// releases of files may follow.
  void stop();

 private:
  /// Lists of files, each with the most recently used first.
  enum Kind : uint8_t {
    busy,     // open, or being made: cannot be removed
    unread,   // made ahead of its reader
    spare,    // was read, and can be made again as fast as it could be copied
    precious  // other files that were read
  };
  static constexpr size_t kKinds = 4;
  struct File {
    int32_t id = 0;  // 0: being made
    uint64_t bytes = 0;
    uint64_t users = 0;
    bool is_cheap = false;  // to be made again
    uint64_t used = 0;      // seen_ at its latest use
    Kind kind = busy;
    std::list<ChunkKey>::iterator place;  // in the list of this kind
  };
  struct Made {
    Result<int32_t> id;                 // of the file
    bool is_damaged = false;            // the chunk cannot be decoded, now or later
    std::chrono::nanoseconds waited{};  // what decoding took, by the wall clock
    MemoryGrowth::Cost making{};        // processor time of it
    MemoryGrowth::Cost writing{};       // processor time of writing the file
  };
  /// Gives the use back at its end.
  class Use final : public Backing {
   public:
    Use(BackingFiles& files, ChunkKey key, int32_t id) : Backing(id), files_(files), key_(key) {}
    ~Use() override { files_.release(key_); }

   private:
    BackingFiles& files_;
    const ChunkKey key_;
  };

  BackingPtr use(ChunkKey key, File& file) CODECFS_REQUIRES(mutex_);
  void release(ChunkKey key);
  /// Reserves room and makes the file; the mutex is released meanwhile. False if it cannot be made.
  bool make_locked(ChunkKey key, uint64_t bytes, const Produce& produce) CODECFS_REQUIRES(mutex_);
  /// Makes room for a file, if files may go for it. Appends the ids of those that went.
  bool have_room(uint64_t memory, std::vector<int32_t>& evicted) CODECFS_REQUIRES(mutex_);
  /// Decodes the chunk and stores it.
  Made store(uint64_t bytes, const Produce& produce, bool checks_memory) noexcept;
  Result<int32_t> write(const ChunkPtr& content, MemoryGrowth::Cost& cost);
  /// Lowers the limit if little memory is available.
  void check_memory();
  void move(File& file, Kind kind) CODECFS_REQUIRES(mutex_);
  /// Removes files that are not open until all take at most `most` bytes, or there is no memory for their ids. Returns
  /// these.
  std::vector<int32_t> evict(uint64_t most) noexcept CODECFS_REQUIRES(mutex_);
  /// Removes the least recently used file of a kind, and appends its id. False if there is no memory for that.
  bool evict_last(Kind kind, std::vector<int32_t>& ids) noexcept CODECFS_REQUIRES(mutex_);
  /// Whether a kind has files, and more than `bytes` of chunks were to be read since the use of the one that would go.
  bool has_unused(Kind kind, uint64_t bytes) CODECFS_REQUIRES(mutex_);
  /// To be called without the mutex.
  void close_all(const std::vector<int32_t>& ids);

  BackingDevice& device_;
  const uint64_t budget_;
  const std::function<uint64_t()> available_;
  Stats& stats_;
  const Policy policy_;
  const Meters meters_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_map<ChunkKey, File> files_ CODECFS_GUARDED_BY(mutex_);
  std::array<std::list<ChunkKey>, kKinds> kinds_ CODECFS_GUARDED_BY(mutex_);
  uint64_t held_ CODECFS_GUARDED_BY(mutex_) = 0;  // bytes of all files, and of those being made
  uint64_t seen_ CODECFS_GUARDED_BY(mutex_) = 0;  // bytes of all chunks that were to be read
  MemoryGrowth growth_ CODECFS_GUARDED_BY(mutex_);
  uint64_t unchecked_ CODECFS_GUARDED_BY(mutex_) = 0;  // bytes of files that were made since check_memory()
  uint64_t limit_ CODECFS_GUARDED_BY(mutex_);          // at most the budget
  Clock::time_point changed_limit_ CODECFS_GUARDED_BY(mutex_);
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
  // Chunks that could not be decoded, latest last: their readers get the reason from a READ.
  std::list<ChunkKey> damaged_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::fs
