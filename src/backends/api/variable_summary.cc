#include "backends/api/variable_summary.h"

#include <utility>
#include <vector>

#include "backends/api/source.h"

namespace codecfs {

VariableSummary summarize(Source& source, ObjectId variable) {
  VariableSummary summary;
  Result<VariablePtr> facts = source.facts(variable);
  if (!facts) {
    summary.error = std::move(facts.error());
    return summary;
  }
  summary.facts = *std::move(facts);
  const uint64_t count = summary.facts->grid.count();
  if (count > VariableSummary::kMaxChunks) return summary;
  for (uint64_t number = 0; number < count; ++number) {
    Result<ChunkInfo> chunk = source.locate(variable, number);
    if (!chunk) {
      summary.error = std::move(chunk.error());
      return summary;
    }
    if (!chunk->stored) continue;
    ++summary.stored_chunks;
    summary.stored_bytes += chunk->stored_size;
    if (chunk->filter_mask != 0) ++summary.masked_chunks;
  }
  summary.is_counted = true;
  return summary;
}

std::vector<VariableSummary> Source::summaries(std::span<const ObjectId> variables) {
  std::vector<VariableSummary> all;
  for (const ObjectId variable : variables) all.push_back(summarize(*this, variable));
  return all;
}

}  // namespace codecfs
