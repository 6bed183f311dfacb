#pragma once
// Which chain a variable is to have: nccopy's `-F VARS,SPEC`, any number of them, and where filters stand in a chain
// that we build ourselves (a stored chain keeps its order, whatever it is).
//
//   none            no filters for all variables; the same as *,none
//   *,SPEC          all variables
//   v,SPEC          the variable v of the root, as /v
//   /g/v&w,SPEC     several, by their full names
//
// A backslash takes the next character of a name as it is (\, \& \* \\ and white space at its ends). Rules for the same
// variable add up in their order: further filters are appended, `v,none` drops what was there. Suppressing filters for
// all is weaker than any other rule, wherever it stands.
// Source: netCDF-C documentation, "Using nccopy", with its table of all cases.

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
  /// Adds the rule that `text` says. EINVAL with the position of what is wrong, as parse_filter_spec().
  Result<> add(std::string_view text);

  /// What the rules make of the variable with this full name ("/group/v"; "/" for a source that is one array):
  /// none: no rule applies, its filters stay as they are; an empty chain: no filters; else this chain, arranged as
  /// netCDF does.
  [[nodiscard]] std::optional<std::vector<FilterStage>> resolve(std::string_view name) const;

  /// The chains of the rules, one after the other.
  [[nodiscard]] std::vector<FilterStage> stages() const;
  /// The full names that rules mention.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool empty() const { return rules_.empty() && !suppress_all_; }

 private:
  struct Rule {
    std::vector<std::string> names;  // full names; empty: all variables
    std::vector<FilterStage> chain;  // empty: no filters
  };

  std::vector<Rule> rules_;
  bool suppress_all_ = false;
};

/// Puts a chain that a user wrote into the order in which netCDF applies it: fletcher32 first, shuffle next, the rest
/// as written; a filter that is there twice keeps its first place and takes the last parameters.
std::vector<FilterStage> arrange_chain(std::vector<FilterStage> chain);

/// Whether an arranged chain must have its first two filters swapped on a Zarr array with elements of `item_size` bytes
/// (0: not fixed): numcodecs cannot shuffle data to which fletcher32 has appended its 4 bytes unless the element size
/// divides 4.
bool shuffle_goes_first(std::span<const FilterStage> arranged, uint64_t item_size);

}  // namespace codecfs::filters
