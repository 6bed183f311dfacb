#pragma once
// Counters of one mount, for `.codecfs/stats`. Written from all threads without locks; a reader sees each counter
// exact, but not all of one instant.

#include <atomic>
#include <cstdint>
#include <string>

namespace codecfs::fs {

struct Stats {
  using Counter = std::atomic<uint64_t>;

  Counter lookups{0};                 // names looked up
  Counter opens{0};                   // files opened
  Counter reads{0};                   // read requests that reached us (the kernel's page cache serves the others)
  Counter bytes_read{0};              // bytes given to the kernel
  Counter stores{0};                  // times that the kernel was given content before it asked for it
  Counter bytes_pushed{0};            // that content
  Counter chunks_decoded{0};          // chunks fetched and decoded
  Counter bytes_decoded{0};           // their decoded bytes
  Counter bytes_stored{0};            // their stored bytes
  Counter chunks_passed{0};           // chunks handed out as they are stored (encoded view)
  Counter bytes_passed{0};            // their bytes
  Counter cache_hits{0};              // reads answered by a chunk that was decoded already
  Counter decodes_shared{0};          // reads that waited for another reader's decode of the same chunk
  Counter decodes_ahead{0};           // decodes begun before a reader asked
  Counter decodes_now{0};             // decodes under way
  Counter decodes_parallel{0};        // the most decodes that were ever under way at once
  Counter cache_bytes{0};             // decoded bytes held
  Counter dirty_bytes{0};             // decoded bytes of changed chunks that are not stored yet
  Counter chunks_encoded{0};          // chunks encoded and stored
  Counter bytes_encoded{0};           // their decoded bytes
  Counter chunks_stored_as_given{0};  // chunks that came encoded and were stored so
  Counter variables_recoded{0};       // variables that were given another chain
  Counter commits{0};                 // times that the source was made durable
  Counter errors{0};                  // requests that failed with a reason (see `log`)

  /// Lines of "name value".
  [[nodiscard]] std::string print() const;
};

}  // namespace codecfs::fs
