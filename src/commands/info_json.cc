// The JSON of `codecfs info`.

#include <utility>

#include "commands/dataset_details.h"
#include "commands/info_facts.h"
#include "commands/info_listing.h"
#include "filters/core/codec_json.h"
#include "filters/core/parameter_names.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// [{"id": 32001, "name": "blosc", "parameters": [2, ...], "meaning": {"compressor": "lz4", ...}}].
Json filters_json(const std::vector<FilterStage>& filters) {
  Json json = Json::array();
  for (const FilterStage& stage : filters) {
    Json filter = Json::object();
    if (stage.id != 0) filter["id"] = stage.id;
    filter["name"] = filter_name(stage);
    if (stage.id != 0) filter["parameters"] = stage.parameters;
    if (const auto named = filters::name_parameters(stage); !named.empty())
      filter["meaning"] = filters::parameters_json(named);
    json.push_back(std::move(filter));
  }
  return json;
}

Json left_out_json(const NodeDetails& details) {
  Json json = Json::object();
  for (const LeftOutAttribute& attribute : details.left_out)
    append_member(json, attribute.name, attribute.error.reason);
  return json;
}

void add_details(Json& json, const NodeDetails& details) {
  if (details.error) json["attributes_error"] = details.error->reason;
  json["attributes"] = attributes_json(details.attributes);
  if (!details.left_out.empty()) json["attributes_left_out"] = left_out_json(details);
}

Json dimensions_json(const std::vector<GroupDimension>& dimensions) {
  Json json = Json::array();
  for (const GroupDimension& dimension : dimensions)
    json.push_back({{"name", dimension.name}, {"length", dimension.length}, {"is_unlimited", dimension.is_unlimited}});
  return json;
}

/// The name of each dimension; null where it has none.
Json names_json(const Variable& described) {
  Json json = Json::array();
  for (std::string& name : dimension_names(described)) json.push_back(name.empty() ? Json() : Json(std::move(name)));
  return json;
}

}  // namespace

Json info_json(const DatasetInfo& info, std::span<const std::optional<FirstValues>> values) {
  const Totals totals = totals_of(info);
  Json json = Json::object();
  json["source"] = info.source;
  json["format"] = info.format;
  if (info.source_bytes != 0) json["file_bytes"] = info.source_bytes;
  json["stored_bytes"] = totals.stored;
  json["decoded_bytes"] = totals.decoded;
  json["groups"] = Json::array();
  json["variables"] = Json::array();
  for (size_t i = 0; i < info.nodes.size(); ++i) {
    const InfoNode& node = info.nodes[i];
    if (node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::folder) {
      Json group = {{"path", "/" + node.path}};
      if (node.error) group["error"] = node.error->reason;
      if (node.details) {
        add_details(group, *node.details);
        group["dimensions"] = dimensions_json(node.details->dimensions);
      }
      json["groups"].push_back(std::move(group));
    }
    if (!node.variable) continue;
    Json variable = {{"path", "/" + node.path}};
    const VariableInfo& found = *node.variable;
    if (found.error) variable["error"] = found.error->reason;
    if (found.facts) {
      const Variable& facts = *found.facts;
      variable["type"] = type_text(facts);
      variable["dtype"] = print_dtype(facts.type);
      variable["shape"] = facts.grid.shape();
      variable["chunks"] = facts.grid.chunks();
      if (facts.shards) variable["shards"] = facts.shards->grid.chunks();
      if (const Result<std::string> spec = filters::print_filter_spec(facts.filters))
        variable["filter"] = spec->empty() ? "none" : *spec;
      if (std::string stored = filters::print_stored_spec(facts.filters); !stored.empty())
        variable["filter_stored"] = std::move(stored);
      variable["filters"] = filters_json(facts.filters);
      variable["codecs"] = filters::print_codecs(facts.filters);
      variable["stored_chunks"] = found.stored_chunks;
      variable["all_chunks"] = facts.grid.count();
      variable["stored_bytes"] = found.stored_bytes;
      variable["masked_chunks"] = found.masked_chunks;
      variable["decoded_bytes"] = found.decoded_bytes;
      if (facts.unreadable) variable["error"] = facts.unreadable->reason;
      if (!found.missing.empty()) {
        variable["missing_filters"] = Json::array();
        for (const Error& missing : found.missing) variable["missing_filters"].push_back(missing.reason);
      }
    }
    if (node.details) {
      if (node.details->described) variable["dimensions"] = names_json(*node.details->described);
      add_details(variable, *node.details);
    }
    if (i < values.size() && values[i]) {
      if (values[i]->error) variable["first_values_error"] = values[i]->error->reason;
      variable["first_values"] = Json::array();
      for (const JsonValue& value : values[i]->values) variable["first_values"].push_back(*value);
    }
    json["variables"].push_back(std::move(variable));
  }
  return json;
}

}  // namespace codecfs::commands
