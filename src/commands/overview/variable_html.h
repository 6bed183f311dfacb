#pragma once
// A variable in the page of an overview.

#include <cstddef>
#include <string>
#include <vector>

#include "commands/dataset_details.h"
#include "commands/dataset_info.h"
#include "commands/overview/variable_overview.h"

namespace codecfs::commands::overview {

/// Bytes of the page that are left.
struct PageBudget {
  size_t picture_bytes;
  size_t attribute_bytes;
};

/// What cannot be read of a node, the most important first. `look`: of a variable, or null.
std::vector<std::string> problems_of(const InfoNode& node, const VariableOverview* look);

/// With its picture, statistics, and everything that is known of it. `number`: of the node.
void append_variable(std::string& html, const InfoNode& node, const VariableOverview& look, size_t number,
                     PageBudget& budget);
/// In one line.
void append_row(std::string& html, const InfoNode& node, size_t number);

void append_attribute_table(std::string& html, const NodeDetails& details, PageBudget& budget);

}  // namespace codecfs::commands::overview
