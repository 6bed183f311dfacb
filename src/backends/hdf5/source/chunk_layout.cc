#include "backends/hdf5/source/chunk_layout.h"

#include <utility>

namespace codecfs::hdf5 {

ChunkLayout::ChunkLayout(VariablePtr facts) : facts_(std::move(facts)) {
  auto pipeline = filters::Pipeline::make(facts_->filters, filters::shape_of_chunk(*facts_));
  if (pipeline)
    pipeline_ = *std::move(pipeline);
  else
    pipeline_error_ = std::move(pipeline.error());
}

Result<Buffer> ChunkLayout::decode(Buffer stored, uint32_t filter_mask) const {
  return decode_chunk(*facts_, pipeline_, pipeline_error_, std::move(stored), filter_mask);
}

Result<Buffer> decode_chunk(const Variable& facts, const std::optional<filters::Pipeline>& pipeline,
                            const std::optional<Error>& error, Buffer stored, uint32_t filter_mask) {
  if (pipeline) return pipeline->decode(std::move(stored), filter_mask);
  std::vector<FilterStage> applied;
  for (size_t i = 0; i < facts.filters.size(); ++i)
    if (i >= 32 || (filter_mask >> i & 1) == 0) applied.push_back(facts.filters[i]);
  if (applied.size() == facts.filters.size()) return std::unexpected(*error);
  CODECFS_ASSIGN(const filters::Pipeline rest, filters::Pipeline::make(applied, filters::shape_of_chunk(facts)));
  return rest.decode(std::move(stored));
}

}  // namespace codecfs::hdf5
