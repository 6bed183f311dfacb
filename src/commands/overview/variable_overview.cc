#include "commands/overview/variable_overview.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/interruption.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands::overview {
namespace {

constexpr size_t kValues = 10;
constexpr uint64_t kSmallChunk = uint64_t{1} << 20;  // bytes: first values of numbers are worth reading one more chunk

/// The variable with the name of a dimension in the group of `path`, or in one above it.
std::optional<Entry> coordinate_of(Source& source, const std::string& path, const std::string& dimension) {
  for (std::string group = path; !group.empty();) {
    const size_t slash = group.rfind('/');
    group.erase(slash == std::string::npos ? 0 : slash);
    const Result<Entry> found = find_path(source, group.empty() ? dimension : group + "/" + dimension);
    if (found && found->kind == EntryKind::variable) return *found;
  }
  return std::nullopt;
}

/// Whether the rows of a heat map go up on a map: their dimension is a latitude, or another vertical axis of a map,
/// with ascending numbers. Source: CF conventions, 4.1 "Latitude Coordinate", 4 "Coordinate Types".
bool goes_up(Source& source, const InfoNode& node) {
  if (!node.details || !node.details->described) return false;
  const std::optional<size_t> rows = row_dimension(*node.details->described);
  if (!rows) return false;
  const std::string name = dimension_names(*node.details->described)[*rows];
  if (name.empty() || name.contains('/')) return false;
  const std::optional<Entry> coordinate = coordinate_of(source, node.path, name);
  if (!coordinate) return false;
  const Result<VariablePtr> described = source.variable(coordinate->object);
  if (!described || (*described)->grid.rank() != 1) return false;
  const auto is_text = [&](const char* attribute, std::initializer_list<std::string_view> texts) {
    const auto found = std::ranges::find((*described)->attributes, attribute, &Attribute::name);
    return found != (*described)->attributes.end() && found->value->is_string() &&
           std::ranges::find(texts, found->value->get_ref<const std::string&>()) != texts.end();
  };
  if (!is_text("units", {"degrees_north", "degree_north", "degrees_N", "degree_N", "degreesN", "degreeN"}) &&
      !is_text("standard_name", {"latitude", "grid_latitude", "projection_y_coordinate"}) && !is_text("axis", {"Y"}))
    return false;
  const FirstValues values = first_values(source, coordinate->object, **described, 2);
  return values.values.size() == 2 && values.values[0]->is_number() && values.values[1]->is_number() &&
         values.values[0]->get<double>() < values.values[1]->get<double>();
}

}  // namespace

VariableOverview look_at(Source& source, const InfoNode& node, const SampleRules& rules) {
  VariableOverview found;
  const VariableInfo& info = *node.variable;
  if (!info.facts || !info.missing.empty()) return found;  // the reason is a part of `info`
  const Variable& facts = *info.facts;
  const std::vector<Attribute> none;
  found.conventions = conventions_of(facts, node.details ? node.details->attributes : none);
  if (has_numbers(facts)) found.sample = take_sample(source, node.entry.object, facts, found.conventions, rules);
  if (found.sample && found.sample->kind == PictureKind::heat && goes_up(source, node)) turn_over(*found.sample);
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
