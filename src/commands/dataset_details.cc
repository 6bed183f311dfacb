#include "commands/dataset_details.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "backends/api/link_notes.h"
#include "commands/workers.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kNodesAtOnce = 64;  // nodes that one thread reads before it takes the next ones
// With so many, another process saves more time than its start takes.
constexpr size_t kManyDetails = 500;

bool is_group(const InfoNode& node) { return node.entry.kind == EntryKind::group; }

NodeDetails details_of_variable(Source& source, ObjectId object) {
  NodeDetails details;
  Result<VariablePtr> described = source.variable(object);
  if (!described) {
    details.error = std::move(described.error());
    return details;
  }
  details.described = *std::move(described);
  details.error = details.described->unreadable_attributes;
  details.attributes = shown_attributes(details.described->attributes);
  details.left_out = details.described->left_out_attributes;
  return details;
}

NodeDetails details_of_group(Source& source, ObjectId object) {
  NodeDetails details;
  if (Result<std::vector<Attribute>> attributes = source.group_attributes(object))
    details.attributes = shown_attributes(*std::move(attributes));
  else
    details.error = std::move(attributes.error());
  if (details.error) return details;
  if (Result<std::vector<LeftOutAttribute>> left_out = source.left_out_attributes(object))
    details.left_out = *std::move(left_out);
  if (Result<std::vector<GroupDimension>> dimensions = source.dimensions(object))
    details.dimensions = *std::move(dimensions);
  return details;
}

}  // namespace

std::vector<Attribute> shown_attributes(std::vector<Attribute> attributes) {
  restore_floats(attributes);
  std::erase_if(attributes, [](const Attribute& attribute) {
    return attribute.name == kPhonyDimensions || attribute.name == kStoredTypes || attribute.name == kStoredLinks;
  });
  return attributes;
}

Result<> read_details(Source& source, DatasetInfo& info, size_t most, const OpenAgain& open_again) {
  std::vector<size_t> nodes;      // that get details
  std::vector<size_t> variables;  // by the index in `nodes`: how many variables are before it
  std::vector<Named> named;
  for (size_t i = 0; i < info.nodes.size(); ++i) {
    const InfoNode& node = info.nodes[i];
    if (!is_group(node) && !node.variable) continue;
    if (nodes.size() < most) {
      nodes.push_back(i);
      variables.push_back(named.size());
    }
    if (node.variable) named.push_back({node.path, node.entry.object});
  }
  // Readers find the variables of a source that was opened again by the order of all of them.
  const bool opens = info.nodes[0].path.empty() && nodes.size() >= kManyDetails;
  Readers readers(source, named, opens ? open_again : OpenAgain{});
  return in_parallel((nodes.size() + kNodesAtOnce - 1) / kNodesAtOnce, [&](uint64_t batch) -> Result<> {
    const Readers::Lease reader = readers.take();
    const auto first = static_cast<size_t>(batch * kNodesAtOnce);
    for (size_t i = first; i < std::min(first + kNodesAtOnce, nodes.size()); ++i) {
      if (interrupted) return fail(ECANCELED, "interrupted");
      InfoNode& node = info.nodes[nodes[i]];
      node.details = std::make_shared<const NodeDetails>(
          node.variable ? details_of_variable(reader.source(), reader.objects()[variables[i]])
                        : details_of_group(source, node.entry.object));
    }
    return {};
  });
}

std::vector<std::string> dimension_names(const Variable& described) {
  std::vector<std::string> names(described.grid.rank());
  std::optional<OptionalNames> named = all_names_of(described);
  if (described.dimensions) named = named_dimensions(*described.dimensions, described.attributes);
  for (size_t d = 0; named && d < std::min(names.size(), named->size()); ++d) names[d] = (*named)[d].value_or("");
  return names;
}

std::string dimensions_text(const Variable& described) {
  std::string text;
  if (!described.dimensions) return text;
  const OptionalNames named = named_dimensions(*described.dimensions, described.attributes);
  for (size_t d = 0; d < named.size(); ++d)
    text += (text.empty() ? "" : ", ") + (*described.dimensions)[d] + (named[d] ? "" : " (generated)");
  return text;
}

std::string attribute_text(const Attribute& attribute) {
  if (attribute.value->is_string()) return attribute.value->get<std::string>();
  return print_json(attribute.value);
}

std::string attribute_type(const Attribute& attribute) {
  if (attribute.type.empty()) return {};
  if (attribute.type == ">S1") return "char";
  if (attribute.type.starts_with("|S")) return "string";
  const Result<DataType> type = parse_dtype(attribute.type);
  return type ? type_text(*type) : attribute.type;
}

Json attributes_json(std::span<const Attribute> attributes) {
  Json json = Json::object();
  for (const Attribute& attribute : attributes) {
    Json item = Json::object();
    if (std::string type = attribute_type(attribute); !type.empty()) item["type"] = std::move(type);
    item["value"] = *attribute.value;
    append_member(json, attribute.name, std::move(item));
  }
  return json;
}

}  // namespace codecfs::commands
