#pragma once
// The options of commands that read or change a dataset without a mount: those of -o that concern sources and filters.

#include <memory>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "cli/argument_parser.h"
#include "cli/mount_options.h"

namespace codecfs::cli {

class DatasetOptions {
 public:
  /// Adds `-O OPTIONS` to a command.
  void declare(ArgumentParser& parser);
  /// Adds `-O OPTIONS` and `-F RULE`.
  void declare_with_rules(ArgumentParser& parser);

  /// How HDF5 files are opened and created, which prepare() uses.
  [[nodiscard]] Hdf5Options& hdf5() { return arguments_.options.sources.hdf5; }

  /// Sets up the filters and the reading of sources; must be called once, before open(). EINVAL.
  Result<> prepare();
  /// Opens sources with these options; to be used after prepare().
  [[nodiscard]] const SourceOpener& opener() const { return opener_; }
  /// Opens a dataset or a folder of datasets.
  Result<std::unique_ptr<Source>> open(const std::string& path, bool may_write = false) const;

  /// What prepare() has made of -F; and its texts.
  [[nodiscard]] const filters::FilterRules& rules() const { return rules_; }
  [[nodiscard]] const std::vector<std::string>& rule_texts() const { return rule_texts_; }
  /// --stock-filters; to be used before prepare(), too.
  [[nodiscard]] bool keeps_to_stock() const { return arguments_.filters.stock; }

 private:
  MountArguments arguments_;
  std::vector<std::string> lists_;
  std::vector<std::string> rule_texts_;
  filters::FilterRules rules_;
  SourceOpener opener_;
};

}  // namespace codecfs::cli
