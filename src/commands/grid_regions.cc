#include "commands/grid_regions.h"

#include <algorithm>

#include <fmt/core.h>

namespace codecfs::commands {

uint64_t Region::elements() const {
  uint64_t count = 1;
  for (const uint64_t length : extent) count *= length;
  return count;
}

std::string Region::text() const {
  if (extent.empty()) return "[...]";
  std::string text;
  for (size_t d = 0; d < extent.size(); ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "[" : ", ", origin[d], origin[d] + extent[d]);
  return text + "]";
}

Region region_of_chunk(const ChunkGrid& grid, uint64_t number) {
  Region region;
  region.origin.resize(grid.rank());
  grid.coordinates_of(number, region.origin);
  for (size_t d = 0; d < grid.rank(); ++d) {
    region.origin[d] *= grid.chunks()[d];
    region.extent.push_back(std::min(grid.chunks()[d], grid.shape()[d] - region.origin[d]));
  }
  return region;
}

Result<> for_each_chunk_in(const ChunkGrid& grid, const Region& region,
                           const std::function<Result<>(uint64_t number)>& visit) {
  std::vector<uint64_t> first;
  std::vector<uint64_t> last;
  for (size_t d = 0; d < grid.rank(); ++d) {
    if (region.extent[d] == 0) return {};
    first.push_back(region.origin[d] / grid.chunks()[d]);
    last.push_back((region.origin[d] + region.extent[d] - 1) / grid.chunks()[d]);
  }
  for (std::vector<uint64_t> at = first;;) {
    CODECFS_TRY(visit(grid.number_of(at)));
    size_t d = at.size();
    while (d > 0 && at[d - 1] == last[d - 1]) {
      at[d - 1] = first[d - 1];
      --d;
    }
    if (d == 0) return {};
    ++at[d - 1];
  }
}

void for_each_run(const Region& region, const Block& one, const Block& other,
                  const std::function<void(uint64_t in_one, uint64_t in_other, uint64_t count)>& run) {
  const size_t rank = region.extent.size();
  if (std::ranges::find(region.extent, uint64_t{0}) != region.extent.end()) return;
  if (rank == 0) return run(0, 0, 1);
  std::vector<uint64_t> at(rank);  // from the origin of the region
  for (;;) {
    uint64_t in_one = 0;
    uint64_t in_other = 0;
    for (size_t d = 0; d < rank; ++d) {
      in_one = in_one * one.extent[d] + region.origin[d] + at[d] - one.origin[d];
      in_other = in_other * other.extent[d] + region.origin[d] + at[d] - other.origin[d];
    }
    run(in_one, in_other, region.extent[rank - 1]);
    size_t d = rank - 1;
    while (d > 0 && at[d - 1] + 1 == region.extent[d - 1]) {
      at[d - 1] = 0;
      --d;
    }
    if (d == 0) return;
    ++at[d - 1];
  }
}

Region intersection(const Region& region, const Region& other) {
  Region both;
  for (size_t d = 0; d < region.extent.size(); ++d) {
    const uint64_t begin = std::max(region.origin[d], other.origin[d]);
    const uint64_t end = std::min(region.origin[d] + region.extent[d], other.origin[d] + other.extent[d]);
    both.origin.push_back(begin);
    both.extent.push_back(end > begin ? end - begin : 0);
  }
  return both;
}

}  // namespace codecfs::commands
