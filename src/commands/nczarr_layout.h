#pragma once
// What a copy of a dataset in netCDF-C's form of Zarr (NCZarr) looks like: its dimensions, with the groups that define
// them, and the metadata files.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/nczarr_texts.h"
#include "backends/api/source.h"
#include "base/result.h"
#include "commands/dataset_info.h"
#include "commands/omissions.h"

namespace codecfs::commands {

/// Not thread-safe. Paths are those of InfoNode with a leading slash; "" is the root.
class NczarrLayout {
 public:
  /// Adds the variables and groups that netCDF-C could not read to `omissions`. All must outlive this object.
  /// ECANCELED; errors of groups.
  static Result<NczarrLayout> make(Source& source, const DatasetInfo& info, Omissions& omissions);

  /// The variable at a path; null: it is a group.
  [[nodiscard]] const Variable* variable(const std::string& path) const;
  /// A variable, and its number in the source.
  struct Array {
    ObjectId object = 0;
    VariablePtr variable;
    std::vector<std::string> references;  // paths of its dimensions
  };
  [[nodiscard]] const Array& array(const std::string& path) const { return arrays_.at(path); }
  /// The files of a variable. `zarray`: that of plain Zarr. `text_length`: bytes that the longest text of an array of
  /// texts has. EINVAL.
  [[nodiscard]] Result<nczarr_texts::ArrayFiles> files_of(const std::string& path, std::string_view zarray,
                                                          std::optional<uint64_t> text_length) const;
  /// The .zattrs of a group with these members.
  [[nodiscard]] Result<std::string> zattrs_of(const std::string& path, std::vector<std::string> arrays,
                                              std::vector<std::string> groups) const;

 private:
  explicit NczarrLayout(Source& source) : source_(&source) {}
  Result<> add_group(const std::string& path, ObjectId group);
  Result<> add_array(const std::string& path, ObjectId object);
  Result<std::string> reference(const std::string& path, const GroupDimension& wanted, bool is_phony);

  Source* source_;
  std::map<std::string, std::vector<GroupDimension>> dimensions_;  // by group
  std::map<std::string, std::set<std::string>> phony_;             // those of them with generated names
  std::map<std::string, ObjectId> groups_;
  std::map<std::string, Array> arrays_;
};

}  // namespace codecfs::commands
