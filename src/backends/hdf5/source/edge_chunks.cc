#include "backends/hdf5/source/edge_chunks.h"

#include <algorithm>
#include <optional>

#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/wal/write_log_format.h"
#include "base/worker_process.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint32_t kNoFilter = ~uint32_t{0};
constexpr size_t kMaxMasks = 4096;

uint32_t bits_of(const std::vector<FilterStage>& filters) {
  return filters.size() < 32 ? (uint32_t{1} << filters.size()) - 1 : kNoFilter;
}

// The masks that a chunk encoded by libhdf5 can have, the reported one first: only optional filters may be skipped.
std::vector<uint32_t> possible_masks(const std::vector<FilterStage>& filters, uint32_t told) {
  std::vector<uint32_t> masks{told};
  uint32_t optional = 0;
  for (size_t i = 0; i < filters.size() && i < 32; ++i)
    if (filters[i].optional) optional |= uint32_t{1} << i;
  uint32_t mask = 0;
  do {
    if (mask != told) masks.push_back(mask);
    mask = (mask - optional) & optional;  // next subset
  } while (mask != 0 && masks.size() < kMaxMasks);
  return masks;
}

}  // namespace

EdgeChunks::EdgeChunks(ChunkGrid before, ChunkGrid after, bool raw_partial)
    : before_(std::move(before)), after_(std::move(after)), raw_partial_(raw_partial) {}

bool EdgeChunks::is_edge(size_t dimension, uint64_t at) const {
  const uint64_t chunk = after_.chunks()[dimension];
  const uint64_t before = before_.shape()[dimension];
  const uint64_t after = after_.shape()[dimension];
  if (after < before) return after % chunk != 0 && at == after / chunk;
  return raw_partial_ && before < after && before % chunk != 0 && at == before / chunk;
}

/// Whether the part of the chunk that is in the array changes.
bool EdgeChunks::is_moved(size_t dimension, uint64_t at) const {
  const uint64_t chunk = after_.chunks()[dimension];
  const uint64_t before = before_.shape()[dimension];
  const uint64_t after = after_.shape()[dimension];
  const uint64_t edge = std::min(before, after);
  return before != after && edge % chunk != 0 && at == edge / chunk;
}

bool EdgeChunks::contains(std::span<const uint64_t> at) const {
  for (size_t d = 0; d < at.size(); ++d)
    if (is_edge(d, at[d])) return true;
  return false;
}

// Dimension by dimension; a chunk at several edges is visited once, for the first of them.
Result<> EdgeChunks::for_each(bool (EdgeChunks::*is_visited)(size_t, uint64_t) const, const Visit& visit) const {
  const size_t rank = after_.rank();
  std::vector<uint64_t> common(rank);
  for (size_t d = 0; d < rank; ++d) common[d] = std::min(before_.cells()[d], after_.cells()[d]);
  for (size_t d = 0; d < rank; ++d) {
    if (common[d] == 0) return {};
    if (!(this->*is_visited)(d, common[d] - 1)) continue;
    std::vector<uint64_t> cells = common;
    cells[d] = 1;
    CODECFS_ASSIGN(const ChunkGrid plane, ChunkGrid::make(cells, std::vector<uint64_t>(rank, 1)));
    std::vector<uint64_t> at(rank);
    for (uint64_t number = 0; number < plane.count(); ++number) {
      plane.coordinates_of(number, at);
      at[d] = common[d] - 1;
      bool was_visited = false;
      for (size_t earlier = 0; earlier < d; ++earlier) was_visited |= (this->*is_visited)(earlier, at[earlier]);
      if (!was_visited) CODECFS_TRY(visit(at));
    }
  }
  return {};
}

// Iterates over contiguous rows.
EdgeChunks::Content EdgeChunks::content_of(std::span<const uint64_t> at, Bytes chunk,
                                           const Dataset::FileForm& form) const {
  const std::vector<uint64_t>& chunks = after_.chunks();
  std::vector<uint64_t> kept(chunks.size());
  for (size_t d = 0; d < chunks.size(); ++d)
    kept[d] = std::min(chunks[d], std::min(before_.shape()[d], after_.shape()[d]) - at[d] * chunks[d]);
  const uint64_t row = chunks.back() * form.element;
  Content content;
  for (uint64_t number = 0; number * row < chunk.size(); ++number) {
    uint64_t rest = number;
    bool inside = true;
    for (size_t d = chunks.size() - 1; d-- > 0; rest /= chunks[d]) inside &= rest % chunks[d] < kept[d];
    const uint64_t length = inside ? kept.back() * form.element : 0;
    const Bytes bytes = chunk.subspan(number * row, row);
    if (length > 0) content.checksum = continue_checksum(content.checksum, bytes.first(length));
    for (uint64_t i = length; i < row; ++i)
      content.is_filled &= bytes[i] == form.fill[(number * row + i) % form.fill.size()];
  }
  return content;
}

Result<> EdgeChunks::complete(Dataset& dataset) const {
  if (!dataset.is_direct()) return {};
  constexpr uint64_t kFew = 4096;
  const uint64_t visited = count_moved();
  const auto store_whole = [&](uint64_t number) -> Result<> {
    note_access(dataset.address());  // each is a step of its own
    return dataset.store_whole(number);
  };
  // Of a sparse array, most chunks at the edge are not stored.
  if (visited > kFew) {
    CODECFS_ASSIGN(const uint64_t stored, count_stored_chunks(dataset.id()));
    if (stored < visited) {
      CODECFS_ASSIGN(const auto numbers, list_stored_chunks(dataset.id(), before_, dataset.rank()));
      std::vector<uint64_t> at(before_.rank());
      for (const uint64_t number : numbers) {
        before_.coordinates_of(number, at);
        bool is_visited = false;
        for (size_t d = 0; d < at.size(); ++d) is_visited |= is_moved(d, at[d]);
        if (is_visited) CODECFS_TRY(store_whole(number));
      }
      return {};
    }
  }
  return for_each(&EdgeChunks::is_moved,
                  [&](std::span<const uint64_t> at) { return store_whole(before_.number_of(at)); });
}

/// At most how many chunks the part in the array changes of.
uint64_t EdgeChunks::count_moved() const {
  uint64_t count = 0;
  for (size_t d = 0; d < before_.rank(); ++d) {
    const uint64_t edge = std::min(before_.shape()[d], after_.shape()[d]);
    if (!is_moved(d, edge / after_.chunks()[d])) continue;
    uint64_t plane = 1;
    for (size_t other = 0; other < before_.rank(); ++other)
      if (other != d && __builtin_mul_overflow(plane, std::min(before_.cells()[other], after_.cells()[other]), &plane))
        return UINT64_MAX;
    if (__builtin_add_overflow(count, plane, &count)) return UINT64_MAX;
  }
  return count;
}

Result<> EdgeChunks::note(const Dataset& dataset) {
  if (dataset.facts().filters.empty()) return {};
  std::optional<Dataset::FileForm> form;
  return for_each(&EdgeChunks::is_edge, [&](std::span<const uint64_t> at) -> Result<> {
    CODECFS_ASSIGN(const ChunkInfo info, dataset.locate(before_.number_of(at)));
    if (!info.stored) return {};
    if (!form) {
      CODECFS_ASSIGN(form, dataset.file_form());
    }
    return note(dataset, *form, at);
  });
}

Result<> EdgeChunks::note(const Dataset& dataset, const Dataset::FileForm& form, std::span<const uint64_t> at) {
  CODECFS_ASSIGN(filters::EncodedChunk stored, dataset.read_as_stored(before_.number_of(at), form));
  const uint32_t mask = stored.filter_mask & bits_of(dataset.facts().filters);
  if (!form.pipeline) {
    if (mask == 0 || stored.filter_mask == kNoFilter) return {};
    return fail(EOPNOTSUPP,
                "{}: chunk {}, which the new shape cuts, is stored without some of its filters, and only libhdf5 has "
                "them: it would damage the chunk; choose a shape that cuts no such chunk, or set other filters",
                dataset.name(), before_.name_of(before_.number_of(at)));
  }
  const uint64_t size = stored.bytes.size();
  auto decoded = form.pipeline->decode(std::move(stored.bytes), stored.filter_mask);
  if (!decoded)
    return fail(decoded.error().code, "{}: chunk {}, which the new shape cuts: {}", dataset.name(),
                before_.name_of(before_.number_of(at)), decoded.error().reason);
  const uint64_t checksum = content_of(at, decoded->bytes(), form).checksum;
  std::optional<uint32_t> in_index;
  if (stored.filter_mask != kNoFilter) in_index = mask;
  chunks_.push_back({{at.begin(), at.end()}, checksum, size, in_index});
  return {};
}

Result<> EdgeChunks::repair(Dataset& dataset) const {
  if (chunks_.empty()) return {};
  if (H5Dflush(dataset.id()) < 0) return fail_library(EIO, "{}: storing the chunks at its edge", dataset.name());
  CODECFS_ASSIGN(const Dataset::FileForm form, dataset.file_form());
  for (const Chunk& chunk : chunks_) CODECFS_TRY(repair(dataset, form, chunk));
  return {};
}

Result<> EdgeChunks::repair(Dataset& dataset, const Dataset::FileForm& form, const Chunk& chunk) const {
  const uint64_t number = after_.number_of(chunk.at);
  CODECFS_ASSIGN(const filters::EncodedChunk stored, dataset.read_as_stored(number, form));
  const uint32_t told = stored.filter_mask;
  const uint32_t bits = bits_of(dataset.facts().filters);
  // First requires that the rest is fill. That fails for heap references, which are rewritten, and for chunks that
  // libhdf5 did not change.
  for (const bool must_be_filled : {true, false}) {
    for (const uint32_t mask : possible_masks(dataset.facts().filters, told)) {
      CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored.bytes.bytes()));
      auto decoded = form.pipeline->decode(std::move(copy), mask);
      if (!decoded && decoded.error().code == ENOMEM) return pass_on(decoded);
      if (!decoded) continue;
      const Content content = content_of(chunk.at, decoded->bytes(), form);
      if (content.checksum != chunk.checksum || (must_be_filled && !content.is_filled)) continue;
      if (told == kNoFilter) return {};  // a partial chunk, whose mask is undefined
      // The reported mask may be libhdf5's cached one for its last chunk instead of the one in the index.
      const bool keeps_old_mask = stored.bytes.size() == chunk.stored_bytes && chunk.filter_mask != (mask & bits);
      if ((mask & bits) == (told & bits) && !keeps_old_mask) return {};
      return dataset.store_recoded(number, stored.bytes.bytes(), mask);
    }
  }
  return fail(EIO, "{}: libhdf5 damaged chunk {} when it changed the shape", dataset.name(), after_.name_of(number));
}

}  // namespace codecfs::hdf5
