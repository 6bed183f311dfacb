// What `codecfs info` prints of one variable, and of everything with -v.

#include <fmt/core.h>

#include <span>
#include <string_view>

#include "base/human.h"
#include "base/terminal_text.h"
#include "commands/dataset_details.h"
#include "commands/info_facts.h"
#include "commands/info_listing.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// "bzip2 optional, szip mandatory"; empty if the format has no flags.
std::string flags_text(std::span<const FilterStage> chain) {
  std::string text;
  for (const FilterStage& stage : chain) {
    if (!stage.has_flag) return {};
    const filters::FilterPtr filter = filters::find_for(stage);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        filter != nullptr ? filter->name : fmt::format("filter {}", stage.id),
                        stage.optional ? "optional" : "mandatory");
  }
  return text;
}

void append_attributes(std::string& text, std::span<const Attribute> attributes, size_t width) {
  if (!attributes.empty()) text += "  attributes\n";
  for (const Attribute& attribute : attributes)
    text += wrap_to(fmt::format("    {} = {}", printable(attribute.name), printable(attribute_text(attribute))), width,
                    std::string(6, ' ')) +
            "\n";
}

void append_fact(std::string& text, std::string_view name, std::string_view value, size_t width) {
  if (!value.empty())
    text += wrap_to(fmt::format("  {:<12} {}", name, printable(value)), width, std::string(15, ' ')) + "\n";
}

void append_left_out(std::string& text, const NodeDetails& details, size_t width) {
  for (const LeftOutAttribute& attribute : details.left_out)
    append_fact(text, "not shown", fmt::format("{}: {}", attribute.name, attribute.error.reason), width);
}

std::string group_text(const InfoNode& node, size_t width) {
  std::string text = wrap_to("/" + printable(node.path), width, "") + "\n";
  if (node.error) append_fact(text, "error", node.error->reason, width);
  if (!node.details) return text;
  if (node.details->error) append_fact(text, "attributes", node.details->error->reason, width);
  if (!node.details->dimensions.empty()) text += "  dimensions\n";
  for (const GroupDimension& dimension : node.details->dimensions)
    text += wrap_to(fmt::format("    {} = {}{}", printable(dimension.name), dimension.length,
                                dimension.is_unlimited ? " (unlimited)" : ""),
                    width, std::string(6, ' ')) +
            "\n";
  append_attributes(text, node.details->attributes, width);
  append_left_out(text, *node.details, width);
  return text;
}

}  // namespace

std::string variable_text(const InfoNode& node, const Variable& described, size_t width) {
  const VariableInfo& info = *node.variable;
  std::string text = wrap_to("/" + printable(node.path), width, "") + "\n";
  const auto add = [&](std::string_view name, std::string_view value) { append_fact(text, name, value, width); };
  add("type", type_text(described));
  add("shape", list_text(described.grid.shape()));
  add("dimensions", dimensions_text(described));
  if (!described.max_shape.empty()) {
    std::string most;
    for (const auto& extent : described.max_shape)
      most += (most.empty() ? "" : " × ") + (extent ? std::to_string(*extent) : std::string("unlimited"));
    if (most != list_text(described.grid.shape())) add("at most", most);
  }
  if (described.grid.rank() != 0 || described.storage != Storage::chunked) add("chunks", storage_text(described));
  add("filters", filters_text(described.filters));
  if (const Result<std::string> spec = filters::print_filter_spec(described.filters); spec && !spec->empty())
    add("as a spec", *spec);
  const std::vector<std::string> lines = parameter_lines(described.filters);
  for (size_t i = 0; i < lines.size(); ++i) add(i == 0 ? "in words" : "", lines[i]);
  add("flags", flags_text(described.filters));
  if (!described.filters.empty()) add("as codecs", print_json(filters::print_codecs(described.filters)));
  if (!described.fill_value.is_null()) add("fill value", print_json(described.fill_value));
  add("stored", fmt::format("{} in {} of {}", human_bytes(info.stored_bytes), human_count(info.stored_chunks),
                            counted(described.grid.count(), "chunk")));
  if (info.masked_chunks > 0) add("skipped", fmt::format("filters in {}", counted(info.masked_chunks, "chunk")));
  if (info.decoded_bytes != 0) add("decoded", human_bytes(info.decoded_bytes));
  add("ratio", ratio_text(decoded_of_stored(info), info.stored_bytes));
  if (info.error) add("error", info.error->reason);
  for (const Error& missing : info.missing) add("missing", missing.reason);
  if (described.unreadable) add("unreadable", described.unreadable->reason);
  if (described.unreadable_attributes) add("attributes", described.unreadable_attributes->reason);
  append_attributes(text, shown_attributes(described.attributes), width);
  return text;
}

std::string values_text(const FirstValues& values, size_t width) {
  std::string list;
  for (const std::string& value : values.texts) list += (list.empty() ? "" : ", ") + value;
  if (!values.is_all) list += list.empty() ? "…" : ", …";
  if (values.error) list = values.error->reason;
  std::string text;
  append_fact(text, "values", list, width);
  return text;
}

std::string listing_text(const DatasetInfo& info, std::span<const std::optional<FirstValues>> values, size_t width) {
  std::string text;
  for (size_t i = 0; i < info.nodes.size(); ++i) {
    const InfoNode& node = info.nodes[i];
    if (i != 0) text += "\n";
    if (!node.variable) {
      text += group_text(node, width);
      if (node.entry.kind == EntryKind::symlink) append_fact(text, "link to", node.entry.target, width);
      continue;
    }
    const VariablePtr described =
        node.details && node.details->described ? node.details->described : node.variable->facts;
    if (described) {
      text += variable_text(node, *described, width);
    } else {
      text += wrap_to("/" + printable(node.path), width, "") + "\n";
      if (node.variable->error) append_fact(text, "error", node.variable->error->reason, width);
    }
    if (node.details) append_left_out(text, *node.details, width);
    if (i < values.size() && values[i]) text += values_text(*values[i], width);
  }
  return text;
}

}  // namespace codecfs::commands
