#pragma once
// What `codecfs info` tells beside types and sizes: attributes of variables and groups, and dimensions.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/dataset_info.h"
#include "commands/readers.h"
#include "model/variable.h"

namespace codecfs::commands {

/// Of a group or variable.
struct NodeDetails {
  VariablePtr described;                   // of a variable: as Source::variable(); null if that failed
  std::vector<Attribute> attributes;       // those that are shown: without notes of codecfs, numbers as numbers
  std::vector<LeftOutAttribute> left_out;  // those that cannot be shown
  std::vector<GroupDimension> dimensions;  // that a group defines
  std::optional<Error> error;              // why the attributes cannot be read
};

/// Reads InfoNode::details of the first `most` nodes that are groups or variables, on all cores. `open_again`: as for
/// read_info(). ECANCELED; errors of single nodes are part of the result.
Result<> read_details(Source& source, DatasetInfo& info, size_t most, const OpenAgain& open_again = {});

/// The attributes as they are shown.
std::vector<Attribute> shown_attributes(std::vector<Attribute> attributes);

/// For people: "time, lat (generated)"; empty if no dimension has a name.
std::string dimensions_text(const Variable& described);
/// The name of each dimension, "" where there is none, or codecfs generated it.
std::vector<std::string> dimension_names(const Variable& described);

/// For people: text without quotes, other values as JSON.
std::string attribute_text(const Attribute& attribute);
/// The type of an attribute for people ("float32", "char", "string"); empty if the source does not tell it.
std::string attribute_type(const Attribute& attribute);

/// JSON: {"units": {"type": "char", "value": "K"}}, without "type" where the source does not tell it.
Json attributes_json(std::span<const Attribute> attributes);

}  // namespace codecfs::commands
