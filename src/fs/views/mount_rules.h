#pragma once
// The rules of the mount (-F, -o filter=) for the variables that they name. Thread-safe.

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/context/mount_context.h"

namespace codecfs::fs {

class MountRules {
 public:
  explicit MountRules(MountContext& mount) : mount_(mount) {}
  /// The pipeline that the filter rules give a variable; none if no rule applies.
  [[nodiscard]] std::optional<std::vector<FilterStage>> pipeline_for(const std::string& path, const Variable& variable);
  /// Whether the pipelines of the variable at a path are replaced by those of filters::stock_chain().
  [[nodiscard]] bool keep_to_stock(std::string_view path);
  /// The pipeline of a user in netCDF's order, or in that of numcodecs if the source needs it.
  [[nodiscard]] std::vector<FilterStage> arranged(std::vector<FilterStage> chain, const Variable& variable,
                                                  std::string_view path);
  /// user._FilterOut: the same as a spec, "none" for no filters.
  [[nodiscard]] std::optional<std::string> spec_for(const Node& node, const Variable& variable);
  /// Checks the rules with what is mounted: EINVAL, with the rule, for a pipeline that a variable named by it cannot
  /// have, and for filters that Zarr does not have. A name to which a rule cannot apply, as there is no such variable
  /// or it is a scalar, is a warning in the log, or EINVAL.
  enum class Unknown { is_told, is_refused };
  Result<> check(Unknown unknown = Unknown::is_told);
  /// Whether a rule names the variable at a path.
  [[nodiscard]] bool have_name_of(const std::string& path) const;
  /// The rules for the variable at a path, as they were written.
  [[nodiscard]] std::string texts_for(const std::string& path) const;
  /// Whether the source of a path stores pipelines of numcodecs.
  bool are_for_numcodecs(std::string_view path);

 private:
  MountContext& mount_;
  std::once_flag told_placement_;
};

}  // namespace codecfs::fs
