#pragma once
// Counters of one mount, for `.codecfs/stats`. Lock-free; each counter is exact, but they are not a snapshot of one
// moment.

#include <atomic>
#include <cstdint>
#include <string>

namespace codecfs::fs {

struct Stats {
  using Counter = std::atomic<uint64_t>;

  Counter lookups{0};     // names looked up
  Counter opens{0};       // files opened
  Counter reads{0};       // READ requests (the kernel's page cache serves the others)
  Counter bytes_read{0};  // bytes given to the kernel
  // times that content was stored in the kernel's page cache before it was requested
  Counter stores{0};
  Counter bytes_pushed{0};            // bytes of that content
  Counter passthrough{0};             // 1: the mount passes chunks through in backing files, 0: it does not
  Counter passthrough_opens{0};       // opens of which the kernel answers the reads itself
  Counter passthrough_chunks{0};      // chunks for which a backing file was made
  Counter passthrough_bytes{0};       // bytes of memory in backing files
  Counter passthrough_fallbacks{0};   // chunks for which none could be made
  Counter chunks_decoded{0};          // chunks fetched and decoded
  Counter bytes_decoded{0};           // their decoded bytes
  Counter bytes_stored{0};            // their stored bytes
  Counter chunks_passed{0};           // encoded chunks passed without decoding (encoded view)
  Counter bytes_passed{0};            // their bytes
  Counter cache_hits{0};              // reads served from a cached decoded chunk
  Counter decodes_shared{0};          // reads that waited for another reader's decode of the same chunk
  Counter decodes_ahead{0};           // decodes started before a reader requested the chunk
  Counter decodes_now{0};             // running decodes
  Counter decodes_parallel{0};        // maximum of decodes_now
  Counter cache_bytes{0};             // decoded bytes in the cache
  Counter dirty_bytes{0};             // decoded bytes of changed chunks that are not stored yet
  Counter chunks_encoded{0};          // chunks encoded and stored
  Counter bytes_encoded{0};           // their decoded bytes
  Counter chunks_stored_as_given{0};  // chunks that were written in encoded form and stored unchanged
  Counter store_calls{0};             // calls of the source by which chunks were stored, one or several
  Counter variables_recoded{0};       // variables that were re-encoded
  Counter commits{0};                 // commits of the source
  Counter metadata_notices{0};        // times that the kernel was notified of a metadata file that has changed
  Counter errors{0};                  // requests that failed with a reason (see `log`)

  /// Lines of "name value".
  [[nodiscard]] std::string print() const;
};

}  // namespace codecfs::fs
