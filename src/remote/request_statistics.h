#pragma once
// Counters of the requests to object stores, for `.codecfs/stats`. Lock-free; each counter is exact, but they are not a
// snapshot of one moment.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace codecfs::remote {

struct RequestStatistics {
  using Counter = std::atomic<uint64_t>;

  // Requests that were sent, with repetitions, by their kind.
  Counter gets{0};
  Counter heads{0};
  Counter lists{0};
  Counter puts{0};
  Counter deletes{0};
  Counter others{0};
  Counter bytes_received{0};  // of bodies
  Counter bytes_sent{0};      // of bodies
  Counter retries{0};         // of the requests, those that repeat another one
  Counter failures{0};        // requests that failed in the end
  Counter interrupted{0};     // requests that no client waits for any more
  Counter now{0};             // requests that run
  Counter parallel{0};        // maximum of `now`
  // Reads of an object that memory had, or whose request ran already, and those that sent requests.
  Counter memory_hits{0};
  Counter memory_misses{0};
  // Bytes in memory of all objects that are open: what is mirrored of them, beside the beginning of each, and data that
  // is expected to be read. They are also the budgets of all these objects.
  Counter mirrored_bytes{0};
  Counter expected_bytes{0};
  // Reads that memory could not serve, by whether the cache on disk could, if there is one.
  Counter disk_hits{0};
  Counter disk_misses{0};

  /// Milliseconds. Requests by the time until all of the answer has come: of each number, those that took at most so
  /// long and longer than the one before; the last are those that took longer.
  static constexpr std::array<unsigned, 11> kBounds{5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
  std::array<Counter, kBounds.size() + 1> times{};
  Counter milliseconds{0};  // of all

  /// A request begins, or has ended.
  void begin();
  void end(std::chrono::milliseconds took);

  [[nodiscard]] uint64_t requests() const { return gets + heads + lists + puts + deletes + others; }
  /// Lines of "name value". The numbers of the histogram are cumulative.
  [[nodiscard]] std::string print() const;
};

}  // namespace codecfs::remote
