#include "fs/chunks/chunks.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace codecfs::fs {
namespace {

/// ESTALE if the place does not mean the same chunk any more.
Result<> check_place(const Nodes& nodes, Dataset& dataset, const ChunkPlace& chunk) {
  CODECFS_TRY(nodes.at(chunk.key));
  // A place that was made while the shape changed may have a number of the old shape and an inode number of the new
  // one.
  CODECFS_ASSIGN(const VariableViewPtr now, dataset.variable(chunk.object));
  if (now == chunk.variable) return {};
  const ChunkGrid& grid = now->facts->grid;
  const std::vector<uint64_t>& before = chunk.variable->facts->grid.cells();
  const bool is_same = chunk.number < grid.count() && before.size() == grid.rank() &&
                       std::ranges::equal(grid.cells() | std::views::drop(1), before | std::views::drop(1));
  if (!is_same) return std::unexpected(Error{ESTALE, {}});
  return {};
}

}  // namespace

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
