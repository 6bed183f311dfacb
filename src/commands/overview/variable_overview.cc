#include "commands/overview/variable_overview.h"

#include <utility>

#include "base/interruption.h"
#include "commands/workers.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kValues = 10;
constexpr uint64_t kSmallChunk = uint64_t{1} << 20;  // bytes: first values of numbers are worth reading one more chunk

}  // namespace

VariableOverview look_at(Source& source, const InfoNode& node, const SampleRules& rules) {
  VariableOverview found;
  const VariableInfo& info = *node.variable;
  if (!info.facts || !info.missing.empty()) return found;  // the reason is a part of `info`
  const Variable& facts = *info.facts;
  const std::vector<Attribute> none;
  found.conventions = conventions_of(facts, node.details ? node.details->attributes : none);
  if (has_numbers(facts)) found.sample = take_sample(source, node.entry.object, facts, found.conventions, rules);
  const bool is_small = facts.chunk_bytes.value_or(0) <= kSmallChunk;
  const bool has_failed = found.sample && (found.sample->none || !found.sample->errors.empty());
  if (!has_failed && (is_small || !found.sample) && !Interruption::is_requested())
    found.values = first_values(source, node.entry.object, facts, kValues);
  if (found.values && found.values->error && Interruption::is_requested()) found.values.reset();
  return found;
}

Result<std::vector<std::optional<VariableOverview>>> look_at_all(Source& source, const DatasetInfo& info, size_t most,
                                                                 const SampleRules& rules,
                                                                 std::chrono::milliseconds time) {
  std::vector<std::optional<VariableOverview>> all(info.nodes.size());
  std::vector<size_t> variables;
  for (size_t i = 0; i < info.nodes.size() && variables.size() < most; ++i)
    if (info.nodes[i].variable) variables.push_back(i);
  const auto end = std::chrono::steady_clock::now() + time;
  const Interruption::Check is_over = [end] { return interrupted || std::chrono::steady_clock::now() > end; };
  CODECFS_TRY(in_parallel(
      variables.size(),
      [&](uint64_t number) -> Result<> {
        const Interruption::Scope scope(&is_over);  // also of waits for a network
        all[variables[number]] = look_at(source, info.nodes[variables[number]], rules);
        return {};
      },
      source.reads_at_once()));
  return all;
}

}  // namespace codecfs::commands::overview
