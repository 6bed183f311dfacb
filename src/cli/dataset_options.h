#pragma once
// The options of commands that read or change a dataset without a mount: those of -o that concern sources and filters.

#include <memory>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "cli/argument_parser.h"
#include "cli/mount_options.h"

namespace codecfs::cli {

class DatasetOptions {
 public:
  /// Adds `-O OPTIONS` to a command.
  void declare(ArgumentParser& parser);
  /// Also adds `-F RULE`.
  void declare_with_rules(ArgumentParser& parser);

  /// Sets up the filters and the reading of sources; must be called once, before open(). EINVAL.
  Result<filters::FilterRules> prepare();
  /// Opens a dataset or a folder of datasets.
  Result<std::unique_ptr<Source>> open(const std::string& path, bool may_write = false) const;

  [[nodiscard]] const mount::Options& options() const { return arguments_.options; }
  [[nodiscard]] const std::vector<std::string>& rules() const { return rules_; }

 private:
  MountArguments arguments_;
  std::vector<std::string> lists_;
  std::vector<std::string> rules_;
};

}  // namespace codecfs::cli
