#include "fs/chunks/chunks.h"

namespace codecfs::fs {

Chunks::Chunks(Dataset& dataset, const Nodes& nodes, Stats& stats, uint64_t cache_bytes,
               const WriteBack::Options& options, const WriteBack::ChangedOutside& changed_outside)
    : cache(cache_bytes, stats),
      conversions(cache_bytes / 4, conversion_stats),
      decoder(dataset, nodes, cache, stats, read_ahead, changed_outside),
      write_back(
          dataset, cache, conversions, stats, options,
          [this](const ChunkPlace& chunk) { return decoder.base_of(chunk); },
          [&](const ChunkPlace& chunk) { return check_place(nodes, dataset, chunk); }, changed_outside),
      read_ahead(cache_bytes / 2, dataset.source().reads_at_once()) {}

}  // namespace codecfs::fs
