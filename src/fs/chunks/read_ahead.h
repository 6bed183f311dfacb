#pragma once
// Decodes chunks ahead of a sequential reader, on all cores.
//
// A sequential reader is recognised after three consecutive chunks of a variable (two, if they begin with the first
// chunk), in one of two orders: by number, as readdir returns them and as zarr-python and arrays in one file read them;
// or by name, as a shell's * sorts them (0.10 before 0.2). A strided reader, which reads every nth chunk because
// several readers share the work, is recognised after four chunks. Several readers per variable are tracked. Other
// access patterns cause no work.
//
// The reader itself needs a core, so the last of several threads gives way: the reader then seldom waits for a core
// while chunks are decoded that it does not need yet, and the threads are seldom without work (Niceness).

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/helpers.h"
#include "base/mutex.h"
#include "model/chunk_grid.h"

namespace codecfs::fs {

/// The chunk whose name is next in lexicographic order; none after the last. Names are decimal numbers without leading
/// zeros joined by ".", which sorts before digits.
std::optional<uint64_t> next_by_name(const ChunkGrid& grid, uint64_t number);

class ReadAhead : public Helpers {
 public:
  /// Starts the threads at the first sequential reader. `budget`: maximum bytes of chunks decoded ahead of one reader.
  /// `threads`: 0 for as many as cores.
  explicit ReadAhead(uint64_t budget, size_t threads = 0);
  ~ReadAhead() override { stop(); }

  /// Records the read of a chunk or of a part of it. `readers` distinguishes kinds of readers of a variable. The
  /// threads call `fetch` for the expected next chunks; it must do nothing for chunks that are ready. `chunk_bytes`:
  /// size of one chunk. `expect`, if it is not null, is called before with the numbers of those that will be fetched,
  /// of up to twice as many after them, and of this chunk if it was not called with it before: many at a time, so that
  /// their requests can be joined, and so early that they have been answered. Returns whether the reader is known to be
  /// sequential.
  using Expect = std::function<void(std::span<const uint64_t> numbers)>;
  bool note(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t chunk_bytes,
            const std::function<void(uint64_t number)>& fetch, const Expect& expect = nullptr);
  /// Queues these chunks, without regard to what readers do.
  void fetch(uint64_t readers, std::span<const uint64_t> numbers, const std::function<void(uint64_t number)>& fetch);
  /// Queues other work for the threads; dropped if too much is queued.
  void soon(std::function<void()> work);
  /// Threads that neither decode nor have chunks to decode call `work`.
  void help(size_t count, const std::function<void()>& work) override;
  [[nodiscard]] uint64_t budget() const { return budget_; }
  static constexpr size_t kMaxTasks = 256;  // queued chunks, for all readers
  /// Ends the threads; no work is done afterwards.
  void stop();

 private:
  struct Stream {
    uint64_t id = 0;  // unique
    uint64_t readers = 0;
    uint64_t last = 0;          // number of the chunk
    uint64_t step = 1;          // difference of consecutive numbers
    unsigned in_row = 0;        // consecutive chunks read
    bool by_name = false;       // order of the reader
    bool is_known = false;      // the order is known: a chunk was next in one order only
    bool is_undecided = false;  // Expect was called for some chunks of both orders
    uint64_t asked = 0;         // chunks after `last` that were queued
    uint64_t expected = 0;      // chunks after `last` for which Expect was called
    bool is_told = false;       // Expect was called for `last`
  };
  struct Task {
    uint64_t stream = 0;  // its id
    uint64_t readers = 0;
    uint64_t number = 0;
    std::function<void(uint64_t number)> fetch;
  };

  [[nodiscard]] uint64_t stride_of(uint64_t readers, uint64_t number) const CODECFS_REQUIRES(mutex_);
  struct Background {
    std::function<void()> work;
    bool is_counted = false;  // in background_open_
  };
  struct Noted {
    bool is_sequential = false;  // the reader
    std::vector<Task> tasks;
    std::vector<uint64_t> expected;  // numbers
  };
  Noted tasks_after(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t most, bool is_remote)
      CODECFS_REQUIRES(mutex_);
  static std::vector<uint64_t> expect_more(Stream& stream, const ChunkGrid& grid, std::span<const uint64_t> next,
                                           uint64_t expects, uint64_t most);
  static std::vector<uint64_t> chunks_after(const Stream& stream, const ChunkGrid& grid, uint64_t most);
  Stream* match_stream(uint64_t readers, const ChunkGrid& grid, uint64_t number) CODECFS_REQUIRES(mutex_);
  bool have_threads() CODECFS_REQUIRES(mutex_);
  void run(const std::stop_token& stop, bool is_last);

  const uint64_t budget_;
  const size_t threads_wanted_;

  Mutex mutex_;
  std::condition_variable_any work_;
  std::list<Stream> streams_ CODECFS_GUARDED_BY(mutex_);  // most recent first
  uint64_t last_id_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::deque<std::pair<uint64_t, uint64_t>> noted_ CODECFS_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ CODECFS_GUARDED_BY(mutex_);
  std::deque<Background> background_ CODECFS_GUARDED_BY(mutex_);  // run after the tasks
  size_t background_open_ CODECFS_GUARDED_BY(mutex_) = 0;         // queued or running
  size_t working_ CODECFS_GUARDED_BY(mutex_) = 0;                 // threads
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::fs
