#pragma once
// Decodes what a sequential reader will ask for next, while it reads: on all cores, though it is one reader.
//
// Who reads the chunks of a variable one after the other is recognised by three of them in a row (two, from the first
// chunk on): in the order of their numbers, as readdir tells them and zarr-python and arrays in one file read them; or
// in that of their names, as a shell's * sorts them (0.10 before 0.2). Who reads every second chunk or every nth, as
// readers do that share the work, is recognised by four of them. Some readers of one variable are followed at a time.
// Others cause no work.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "model/chunk_grid.h"

namespace codecfs::fs {

/// The chunk whose name comes next in the order of strings; none after the last. Source: as chunks are named, decimal
/// numbers without leading zeros joined by ".", which sorts before digits.
std::optional<uint64_t> next_by_name(const ChunkGrid& grid, uint64_t number);

class ReadAhead {
 public:
  /// As many threads as cores, from the first sequential reader on. `budget`: bytes that chunks fetched ahead of one
  /// reader may take.
  explicit ReadAhead(uint64_t budget);
  ~ReadAhead() { stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Somebody is about to read this chunk, or some more of it. `readers`: tells one kind of readers of a variable from
  /// others. `fetch` is called for the chunks that are expected next, from the threads, and makes them ready; it must
  /// do nothing for those that are. `chunk_bytes`: that one of them takes.
  void note(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t chunk_bytes,
            const std::function<void(uint64_t number)>& fetch);
  /// Something else to be done soon from the threads; dropped where much waits.
  void soon(std::function<void()> work);
  /// Ends the threads; nothing is done any more.
  void stop();

 private:
  struct Stream {
    uint64_t id = 0;  // no other has it
    uint64_t readers = 0;
    uint64_t last = 0;      // number of the chunk
    uint64_t step = 1;      // from one number to the next
    unsigned in_row = 0;    // chunks that came one after the other
    bool by_name = false;   // the order in which they came
    bool is_known = false;  // by a chunk that is the next in one order alone
    uint64_t asked = 0;     // chunks behind the last that were asked for
  };
  struct Task {
    uint64_t stream = 0;  // its id
    uint64_t readers = 0;
    uint64_t number = 0;
    std::function<void(uint64_t number)> fetch;
  };

  [[nodiscard]] uint64_t step_to(uint64_t readers, uint64_t number) const;
  Stream* match_stream(uint64_t readers, const ChunkGrid& grid, uint64_t number);
  bool have_threads();
  void run(const std::stop_token& stop);

  const uint64_t budget_;
  const unsigned threads_wanted_;

  std::mutex mutex_;  // guards all below
  std::condition_variable_any work_;
  std::list<Stream> streams_;  // most recent first
  uint64_t last_id_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> noted_;
  std::deque<Task> tasks_;
  std::deque<std::function<void()>> chores_;  // after the tasks
  size_t chores_open_ = 0;                    // that wait or are being done
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace codecfs::fs
