#include "backends/hdf5/source/chunk_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/fill.h"

namespace codecfs::hdf5 {

uint64_t needed_bytes(const ChunkGrid& grid, std::span<const uint64_t> count, uint64_t element) {
  uint64_t last = 0;
  for (size_t d = 0; d < count.size(); ++d) {
    if (count[d] == 0) return 0;
    last = last * grid.chunks()[d] + count[d] - 1;
  }
  return (last + 1) * element;
}

uint64_t needed_bytes(const ChunkGrid& grid, uint64_t number, uint64_t element) {
  std::vector<uint64_t> count(grid.rank());
  grid.coordinates_of(number, count);
  for (size_t d = 0; d < count.size(); ++d)
    count[d] = std::min(grid.chunks()[d], grid.shape()[d] - count[d] * grid.chunks()[d]);
  return needed_bytes(grid, count, element);
}

ChunkLayout::ChunkLayout(VariablePtr facts) : facts_(std::move(facts)) {
  auto pipeline = filters::Pipeline::make(facts_->filters, filters::shape_of_chunk(*facts_));
  if (pipeline)
    pipeline_ = *std::move(pipeline);
  else
    pipeline_error_ = std::move(pipeline.error());
}

Result<Buffer> ChunkLayout::decode(Buffer stored, uint32_t filter_mask, uint64_t number) const {
  CODECFS_ASSIGN(Buffer decoded, decode_chunk(*facts_, pipeline_, pipeline_error_, std::move(stored), filter_mask,
                                              needed_bytes(facts_->grid, number, facts_->type.size)));
  clear_behind_ends(facts_->ended_strings, facts_->type.size, decoded.mutable_bytes());
  return pad_chunk(std::move(decoded), *facts_->chunk_bytes, facts_->fill);
}

bool ChunkLayout::is_as_shown(Bytes stored, uint32_t filter_mask, uint64_t number) const {
  Result<Buffer> copy = Buffer::copy_of(stored);
  if (!copy) return true;
  const auto decoded = decode_chunk(*facts_, pipeline_, pipeline_error_, *std::move(copy), filter_mask,
                                    needed_bytes(facts_->grid, number, facts_->type.size));
  return !decoded || hdf5::is_as_shown(*facts_, decoded->bytes());
}

bool is_as_shown(const Variable& facts, Bytes decoded) {
  return decoded.size() == facts.chunk_bytes && !has_bytes_behind_ends(facts.ended_strings, facts.type.size, decoded);
}

Result<Buffer> decode_chunk(const Variable& facts, const std::optional<filters::Pipeline>& pipeline,
                            const std::optional<Error>& error, Buffer stored, uint32_t filter_mask, uint64_t needed) {
  if (pipeline) return pipeline->decode(std::move(stored), filter_mask, needed);
  std::vector<FilterStage> applied;
  for (size_t i = 0; i < facts.filters.size(); ++i)
    if (i >= 32 || (filter_mask >> i & 1) == 0) applied.push_back(facts.filters[i]);
  if (applied.size() == facts.filters.size()) return std::unexpected(*error);
  CODECFS_ASSIGN(const filters::Pipeline rest, filters::Pipeline::make(applied, filters::shape_of_chunk(facts)));
  return rest.decode(std::move(stored), 0, needed);
}

Result<Buffer> pad_chunk(Buffer decoded, uint64_t bytes, Bytes fill) {
  if (decoded.size() >= bytes) return decoded;
  CODECFS_ASSIGN(Buffer whole, Buffer::allocate(bytes));
  std::ranges::copy(decoded.bytes(), whole.data());
  // A partial element at the end of what is stored is not in the array either.
  const size_t element = std::max<size_t>(fill.size(), 1);
  repeat_element(fill, whole.mutable_bytes().subspan(decoded.size() / element * element));
  return whole;
}

}  // namespace codecfs::hdf5
