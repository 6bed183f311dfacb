#pragma once
// Rules that assign filters to variables (any number of nccopy's `-F VARS,SPEC`), and the order of filters in a new
// pipeline. The order of a stored pipeline is never changed.
//
//   none            no filters for all variables; the same as *,none
//   *,SPEC          all variables
//   v,SPEC          the variable v of the root, as /v
//   /g/v&w,SPEC     several, by their full names; /g/v|w,SPEC is the older form
//
// A backslash escapes the next character of a name (\, \& \| \* \\ and white space at its ends). Rules for the same
// variable combine in order: further filters are appended. Two rules do not depend on their position: `v,none` is
// stronger than any other rule for v, `*,none` is weaker than any.
// Source: netCDF-C documentation, "Using nccopy", with its table of all cases, and nccopy where it says nothing.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::filters {

class FilterRules {
 public:
  /// Adds the rule in `text`. EINVAL with the position of the error, as parse_filter_spec().
  Result<> add(std::string_view text);

  /// The pipeline that the rules give the variable with this full name ("/group/v"; "/" for a source that is one
  /// array). None: no rule applies, the filters do not change. An empty pipeline: no filters. Otherwise the pipeline in
  /// netCDF's order.
  [[nodiscard]] std::optional<std::vector<FilterStage>> resolve(std::string_view name) const;

  /// The pipelines of all rules, concatenated.
  [[nodiscard]] std::vector<FilterStage> stages() const;
  /// The rules for the variable with this full name, as they were written, each in double quotes.
  [[nodiscard]] std::string texts_for(std::string_view name) const;
  /// The full names in the rules.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool empty() const { return rules_.empty() && !suppress_all_ && !keeps_to_stock_; }

  /// From now on, variables also get the pipelines of stock_chain(), whatever these are of: a rule, a client, the
  /// source. Callers of resolve() do that.
  void keep_to_stock() { keeps_to_stock_ = true; }
  [[nodiscard]] bool keeps_to_stock() const { return keeps_to_stock_; }

 private:
  struct Rule {
    std::vector<std::string> names;  // full names; empty: all variables
    std::vector<FilterStage> chain;  // empty: no filters
    std::string text;
  };

  std::vector<Rule> rules_;
  bool suppress_all_ = false;
  bool keeps_to_stock_ = false;
};

/// Sorts a pipeline from a user into the order that netCDF applies: fletcher32 first, shuffle next, the rest as
/// written. A duplicate filter keeps its first position and takes the last parameters.
std::vector<FilterStage> arrange_chain(std::vector<FilterStage> chain);

/// Whether the first two filters of an arranged pipeline must be swapped on a Zarr array with elements of `item_size`
/// bytes (0: not fixed): fletcher32 appends 4 bytes, and numcodecs can shuffle the result only if the element size
/// divides 4.
bool shuffle_goes_first(std::span<const FilterStage> arranged, uint64_t item_size);

}  // namespace codecfs::filters
