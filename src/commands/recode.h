#pragma once
// `codecfs recode`: changes the filters of variables in place, through the transaction of `setfattr -n user._Filter`:
// each variable is changed completely or not at all.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "filters/core/filter_rules.h"

namespace codecfs::commands {

/// What happens, or would happen, to a variable that a rule names.
struct Recoded {
  std::string path;    // "/g/v"
  std::string before;  // pipelines as filters_text()
  std::string after;
  uint64_t chunks = 0;  // stored ones
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;      // 0: not measured (a dry run)
  uint64_t masked_before = 0;    // chunks of which HDF5 skipped filters
  uint64_t masked_after = 0;     // in a dry run: as before
  bool changes = false;          // false: it has these filters already
  std::string plugins;           // plugins_needed() of the filters in HDF5 that it has got
  std::optional<Error> refused;  // why it is left as it is
};

struct RecodeResult {
  std::vector<Recoded> variables;
  uint64_t reclaimable_bytes = 0;  // what `codecfs compact` would free
};

/// Gives each variable the filters of its rule; `told` is called after each. With `dry_run` nothing is changed. EINVAL
/// for a folder of datasets; EROFS, EBUSY; ECANCELED: the variables that were told are
/// changed, the others are not.
Result<RecodeResult> recode(std::unique_ptr<Source> source, filters::FilterRules rules, bool dry_run,
                            const std::function<void(const Recoded&)>& told);

}  // namespace codecfs::commands
