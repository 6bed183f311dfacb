#pragma once
// The first elements of a variable, as ncdump shows them.

#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/dataset_info.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::commands {

struct FirstValues {
  std::vector<std::string> texts;  // for people, in C order of the array
  std::vector<JsonValue> values;   // numbers as numbers, texts as texts
  bool is_all = false;             // the array has no others
  std::optional<Error> error;      // why there are no more
};

/// Reads at most `most` elements, and no chunk that is larger than some 64 MiB.
FirstValues first_values(Source& source, ObjectId variable, const Variable& facts, size_t most);

/// Of each node of `info` that is a variable, on all cores. ECANCELED.
Result<std::vector<std::optional<FirstValues>>> all_first_values(Source& source, const DatasetInfo& info, size_t most);

}  // namespace codecfs::commands
