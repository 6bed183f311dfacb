#pragma once
// Options that concern filters: rules, plugins, and built-in filters to replace.

#include <string>
#include <vector>

#include "base/result.h"
#include "filters/core/filter_rules.h"

namespace codecfs::cli {

struct FilterOptions {
  /// The text of a filter rule. It may name filters of plugins, so it is parsed after these are known.
  struct Rule {
    std::string option;  // "-F" or "-o filter", for messages
    std::string text;
  };

  std::vector<Rule> rules;               // -F VARS,SPEC and -o filter=VARS,SPEC, in this order
  std::string plugin_path;               // -o plugin_path=DIR:DIR, searched before HDF5_PLUGIN_PATH
  bool stock = false;                    // --stock-filters and -o stock-filters
  bool plugins = true;                   // false: -o plugins=off
  bool builtin = true;                   // false: -o builtin=off
  std::vector<std::string> not_builtin;  // -o builtin=off:NAME:NAME, names or ids
};

/// Sets the plugin path and the built-in filters to replace, and parses the rules. EINVAL with a reason that names the
/// option.
Result<filters::FilterRules> set_up_filters(const FilterOptions& options);

}  // namespace codecfs::cli
