#include "cli/dataset_options.h"

#include <unistd.h>

#include <filesystem>

#include "backends/open/source_opener.h"
#include "base/progress_reporter.h"
#include "cli/filter_options.h"
#include "model/limits.h"

namespace codecfs::cli {

void DatasetOptions::declare(ArgumentParser& parser) {
  parser.add_values("-O,--options", lists_,
                    {.text = "options of a mount that concern sources and filters: plugin_path=DIR, plugins=off, "
                             "builtin=off, max_chunk=SIZE, follow=HOW, isolate=HOW; see codecfs --help",
                     .value = "OPTIONS"});
}

void DatasetOptions::declare_with_rules(ArgumentParser& parser) {
  parser.add_values(
      "-F,--filter", rule_texts_,
      {.text = "filter rule as in nccopy: *,zstd,3 or v&/group/w,shuffle|zstd; may be repeated", .value = "VARS,SPEC"});
  parser.add_flag("--stock-filters", arguments_.filters.stock,
                  {.text = "HDF5: deflate and shuffle in place of filters for which h5py and ncdump need a plugin"});
  declare(parser);
}

Result<> DatasetOptions::prepare() {
  for (const std::string& rule : rule_texts_) arguments_.filters.rules.push_back({"-F", rule});
  CODECFS_TRY(apply_options(arguments_, lists_));
  log::set_level(log::Level::warning);
  ProgressReporter::show_on(STDERR_FILENO);
  set_max_chunk_bytes(arguments_.options.max_chunk_bytes);  // worker processes inherit the limit
  CODECFS_ASSIGN(rules_, set_up_filters(arguments_.filters));
  opener_ = SourceOpener(arguments_.options.sources);
  return {};
}

Result<std::unique_ptr<Source>> DatasetOptions::open(const std::string& path, bool may_write) const {
  ReferenceRules rules{.follow = arguments_.options.follow.value_or(Follow::all), .folder = {}, .mountpoint = {}};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) rules.folder = std::filesystem::canonical(path, error).string();
  set_reference_rules(rules);
  return opener_.open(path, may_write);
}

}  // namespace codecfs::cli
