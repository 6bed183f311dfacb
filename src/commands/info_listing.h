#pragma once
// What `codecfs info -v` prints, like ncdump: everything with attributes, dimensions and first values; and the JSON of
// `codecfs info`.

#include <optional>
#include <span>
#include <string>

#include "commands/dataset_info.h"
#include "commands/first_values.h"

namespace codecfs::commands {

/// The line "values".
std::string values_text(const FirstValues& values, size_t width);

/// Each node with its details, if it has some. `values`: of each node, or empty.
std::string listing_text(const DatasetInfo& info, std::span<const std::optional<FirstValues>> values, size_t width);

/// The whole as JSON: {"source", "format", "groups", "variables": [...]}, with the details of nodes that have some.
/// `values`: of each node, or empty.
Json info_json(const DatasetInfo& info, std::span<const std::optional<FirstValues>> values = {});

}  // namespace codecfs::commands
