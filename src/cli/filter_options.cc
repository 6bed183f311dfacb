#include "cli/filter_options.h"

#include <cstdlib>

#include "backends/api/processes.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "filters/plugins/plugin_path.h"
#include "filters/plugins/plugins.h"

namespace codecfs::cli {

/// Checks the filters of a rule without its variables; MountRules::check() checks them with these.
static Result<> check_rule(const std::string& text) {
  filters::FilterRules rule;
  CODECFS_TRY(rule.add(text));
  const std::vector<FilterStage> stages = rule.stages();
  CODECFS_TRY(filters::check_new_chain(stages, 0));
  for (const FilterStage& stage : stages)
    if (const filters::FilterPtr filter = filters::find_for(stage); filter && filter->in_libhdf5)
      return fail(EINVAL, "{} cannot be set, as only libhdf5 has it", filter->name);
  return {};
}

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
  if (options.stock) rules.keep_to_stock();
  for (const auto& [option, text] : options.rules) {
    const Result<> added = rules.add(text);
    if (!added) return fail(EINVAL, "{}: {}", option, added.error().reason);
    if (const Result<> checked = check_rule(text); !checked)
      return fail(EINVAL, "{} \"{}\": {}", option, text, checked.error().reason);
  }
  return rules;
}

}  // namespace codecfs::cli
