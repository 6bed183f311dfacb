#include "cli/mount.h"

#include <unistd.h>

#include <cerrno>

#include "backends/open/source_opener.h"
#include "cli/chosen_mountpoint.h"
#include "cli/report.h"
#include "commands/references.h"
#include "filters/plugins/plugins.h"
#include "model/limits.h"
#include "mount/session.h"

namespace codecfs::cli {
namespace {

/// False if the source does not exist and -o nofail permits that.
bool is_there(const MountArguments& arguments) {
  return !arguments.may_be_missing || is_source_url(arguments.options.source) || !arguments.options.create.empty() ||
         access(arguments.options.source.c_str(), F_OK) == 0 || errno != ENOENT;
}

}  // namespace

CommandHelp MountCommand::help() const {
  return {"",
          "Mounts an HDF5 or netCDF-4 file, a Zarr directory or zip archive, a folder of them, or a Zarr store in an "
          "object\n"
          "store (s3://, gs://, az://, https://), as a tree of decoded chunk files.",
          mount_options_help()};
}

void MountCommand::declare(ArgumentParser& parser) {
  mount::Options& options = arguments_.options;
  parser.add_value(
      "SOURCE", options.source,
      {.text = "file, directory or URL (s3://, gs://, az://, https://) to mount, recognised by its content",
       .value = "TEXT"});
  parser.add_value("MOUNTPOINT", options.mountpoint,
                   {.text = "an existing directory (-o mkdir: a new one); if it is left out, one is made and printed",
                    .value = "TEXT"});
  parser.add_values("-o", option_lists_, {.group = "Mounting", .text = "mount options, see below", .value = "OPTIONS"});
  parser.add_flag("-f,--foreground", options.foreground,
                  {.group = "Mounting", .text = "stay in the foreground, log to stderr (default: background, syslog)"});
  parser.add_values(
      "-F", rules_,
      {.group = "Mounting", .text = "filter rule as in nccopy, see below; may be repeated", .value = "VARS,SPEC"});
}

Result<> MountCommand::check() {
  if (arguments_.options.source.empty())
    return fail(EINVAL, "usage: codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE [MOUNTPOINT] (see codecfs --help)");
  for (std::string& rule : rules_) arguments_.filters.rules.push_back({"-F", std::move(rule)});
  CODECFS_TRY(apply_options(arguments_, option_lists_));
  if (!arguments_.options.mountpoint.empty()) return {};
  CODECFS_ASSIGN(arguments_.options.mountpoint, choose_mountpoint(arguments_.options.source));
  arguments_.options.make_mountpoint = true;
  is_chosen_ = true;
  return {};
}

Result<int> MountCommand::work() {
  if (!is_there(arguments_)) return 0;
  mount::Starter starter;
  if (!arguments_.options.foreground && !arguments_.is_fake) {
    CODECFS_ASSIGN(const std::optional<int> ended, starter.fork_daemon());
    if (ended && *ended == 0 && is_chosen_) return print(arguments_.options.mountpoint + "\n");
    if (ended) return *ended;
  }
  if (arguments_.options.foreground && is_chosen_)
    if (const int failed = print(arguments_.options.mountpoint + "\n"); failed != 0) return failed;
  set_max_chunk_bytes(arguments_.options.max_chunk_bytes);  // worker processes inherit the limit
  Result<filters::FilterRules> rules = set_up_filters(arguments_.filters);
  if (!rules) return report(rules.error(), kUsage);
  if (arguments_.is_fake) return 0;
  arguments_.options.references = commands::references_text;
  const Result<> mounted = mount::run_mount(arguments_.options, *std::move(rules), starter);
  filters::finalize_plugins();
  CODECFS_TRY(mounted);
  return 0;
}

}  // namespace codecfs::cli
