// Texts and sums that all forms of `codecfs info` have.

#include "commands/info_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/human.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_names.h"
#include "model/json.h"

namespace codecfs::commands {

std::string list_text(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += (text.empty() ? "" : " × ") + std::to_string(number);
  return text.empty() ? "scalar" : text;
}

std::string ratio_text(uint64_t decoded, uint64_t stored) {
  if (decoded == 0 || stored == 0) return "";
  return fmt::format("{:.1f}x", static_cast<double>(decoded) / static_cast<double>(stored));
}

uint64_t decoded_of_stored(const VariableInfo& info) {
  const uint64_t count = info.facts->grid.count();
  if (count == 0 || info.stored_chunks >= count) return info.decoded_bytes;
  return static_cast<uint64_t>(static_cast<double>(info.decoded_bytes) * static_cast<double>(info.stored_chunks) /
                               static_cast<double>(count));
}

std::string storage_text(const Variable& facts) {
  switch (facts.storage) {
    case Storage::contiguous: return "contiguous";
    case Storage::compact: return "compact";
    case Storage::external: return "external files";
    case Storage::virtual_sources: return "virtual";
    case Storage::chunked: break;
  }
  std::string text = list_text(facts.grid.chunks());
  if (facts.shards) text += fmt::format(" in shards of {}", list_text(facts.shards->grid.chunks()));
  return text;
}

std::vector<std::string> parameter_lines(const std::vector<FilterStage>& filters) {
  std::vector<std::string> lines;
  for (const FilterStage& stage : filters)
    if (const auto named = filters::name_parameters(stage); !named.empty())
      lines.push_back(fmt::format("{}: {}", filter_name(stage), filters::parameters_text(named)));
  return lines;
}

Totals totals_of(const DatasetInfo& info) {
  Totals totals;
  for (const InfoNode& node : info.nodes) {
    if (node.entry.kind == EntryKind::group && &node != info.nodes.data()) ++totals.groups;
    if (!node.variable) continue;
    ++totals.variables;
    totals.stored += node.variable->stored_bytes;
    totals.decoded += std::min(node.variable->decoded_bytes, UINT64_MAX - totals.decoded);
    if (node.variable->facts)
      totals.decoded_of_stored += std::min(decoded_of_stored(*node.variable), UINT64_MAX - totals.decoded_of_stored);
  }
  return totals;
}

}  // namespace codecfs::commands
