#include "fs/nodes/stats.h"

#include <fmt/format.h>

namespace codecfs::fs {

std::string Stats::print() const {
  std::string text;
  const auto line = [&](const char* name, const Counter& counter) {
    text += fmt::format("{} {}\n", name, counter.load(std::memory_order_relaxed));
  };
  line("lookups", lookups);
  line("opens", opens);
  line("reads", reads);
  line("bytes_read", bytes_read);
  line("stores", stores);
  line("bytes_pushed", bytes_pushed);
  line("passthrough", passthrough);
  line("passthrough_opens", passthrough_opens);
  line("passthrough_chunks", passthrough_chunks);
  line("passthrough_bytes", passthrough_bytes);
  line("passthrough_fallbacks", passthrough_fallbacks);
  line("chunks_decoded", chunks_decoded);
  line("bytes_decoded", bytes_decoded);
  line("bytes_stored", bytes_stored);
  line("chunks_passed", chunks_passed);
  line("bytes_passed", bytes_passed);
  line("cache_hits", cache_hits);
  line("decodes_shared", decodes_shared);
  line("decodes_ahead", decodes_ahead);
  line("decodes_now", decodes_now);
  line("decodes_parallel", decodes_parallel);
  line("cache_bytes", cache_bytes);
  line("dirty_bytes", dirty_bytes);
  line("chunks_encoded", chunks_encoded);
  line("bytes_encoded", bytes_encoded);
  line("chunks_stored_as_given", chunks_stored_as_given);
  line("store_calls", store_calls);
  line("variables_recoded", variables_recoded);
  line("commits", commits);
  line("metadata_notices", metadata_notices);
  line("errors", errors);
  return text;
}

}  // namespace codecfs::fs
