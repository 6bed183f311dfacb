#include "cli/filter_options.h"

#include <cstdlib>

#include "backends/api/source.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "filters/plugins/plugin_path.h"
#include "filters/plugins/plugins.h"

namespace codecfs::cli {

Result<filters::FilterRules> set_up_filters(const FilterOptions& options) {
  filters::set_plugin_directories(filters::plugin_directories(options.plugin_path, secure_getenv("HDF5_PLUGIN_PATH")));
  if (!options.plugins) filters::refuse_plugins();
  if (!options.builtin) filters::unregister_built_in();
  for (const std::string& name : options.not_builtin) {
    const Result<> removed = filters::unregister_built_in(name);
    if (!removed && options.builtin) return fail(EINVAL, "-o builtin=off:{}: {}", name, removed.error().reason);
  }
  // Worker processes inherit these settings. Plugins are not searched yet, so no mutex of theirs is held.
  prepare_sources();
  filters::FilterRules rules;
  for (const auto& [option, text] : options.rules) {
    const Result<> added = rules.add(text);
    if (!added) return fail(EINVAL, "{}: {}", option, added.error().reason);
  }
  // Check the filters without variables first; each variable is checked when the rules are applied.
  if (const Result<> checked = filters::check_new_chain(rules.stages(), 0); !checked)
    return fail(EINVAL, "filter rules: {}", checked.error().reason);
  for (const FilterStage& stage : rules.stages())
    if (const filters::FilterPtr filter = filters::find_for(stage); filter && filter->in_libhdf5)
      return fail(EINVAL, "filter rules: {} cannot be set, as only libhdf5 has it", filter->name);
  return rules;
}

}  // namespace codecfs::cli
