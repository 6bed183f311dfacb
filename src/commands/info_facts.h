#pragma once
// Texts and sums that all forms of `codecfs info` have.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/dataset_info.h"

namespace codecfs::commands {

/// "2 × 18 × 36"; "scalar".
std::string list_text(const std::vector<uint64_t>& numbers);
/// "2.7x"; empty if one of them is 0.
std::string ratio_text(uint64_t decoded, uint64_t stored);
/// Decoded bytes of the chunks that are stored; edge chunks count as far as they lie in the array.
uint64_t decoded_of_stored(const VariableInfo& info);
/// "1 × 9 × 18", "contiguous".
std::string storage_text(const Variable& facts);

/// For each filter of which the parameters are known, "blosc: compressor lz4, level 5".
std::vector<std::string> parameter_lines(const std::vector<FilterStage>& filters);

struct Totals {
  uint64_t groups = 0;
  uint64_t variables = 0;
  uint64_t stored = 0;
  uint64_t decoded = 0;
  uint64_t decoded_of_stored = 0;
};

Totals totals_of(const DatasetInfo& info);

}  // namespace codecfs::commands
