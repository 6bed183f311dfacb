#pragma once
// What an overview tells of each variable: its sample, or why there is none.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "commands/dataset_details.h"
#include "commands/dataset_info.h"
#include "commands/first_values.h"
#include "commands/overview/sample.h"

namespace codecfs::commands::overview {

struct VariableOverview {
  Conventions conventions;
  std::optional<Sample> sample;       // of variables with numbers
  std::optional<FirstValues> values;  // of the others, and of those with small chunks
};

/// Reads a variable, with InfoNode::details if it has some.
VariableOverview look_at(Source& source, const InfoNode& node, const SampleRules& rules);

/// Looks at the first `most` variables of `info`, on all cores, for at most `time`; later variables have a sample that
/// says so. By the index of the node. ECANCELED.
Result<std::vector<std::optional<VariableOverview>>> look_at_all(Source& source, const DatasetInfo& info, size_t most,
                                                                 const SampleRules& rules,
                                                                 std::chrono::milliseconds time);

}  // namespace codecfs::commands::overview
