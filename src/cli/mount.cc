#include "cli/mount.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "cli/report.h"
#include "filters/plugins/plugins.h"
#include "model/limits.h"
#include "mount/session.h"

namespace codecfs::cli {
namespace {

/// False if the source does not exist and -o nofail permits that.
bool is_there(const MountArguments& arguments) {
  return !arguments.may_be_missing || !arguments.options.create.empty() ||
         access(arguments.options.source.c_str(), F_OK) == 0 || errno != ENOENT;
}

}  // namespace

void MountCommand::declare(CLI::App& app) {
  mount::Options& options = arguments_.options;
  app.add_option("SOURCE", options.source, "file or directory to mount, recognised by its content")->group("Arguments");
  app.add_option("MOUNTPOINT", options.mountpoint, "an existing directory (-o mkdir: a new one)")->group("Arguments");
  app.add_option("-o", option_lists_, "mount options, see below")
      ->type_name("OPTIONS")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Mounting");
  app.add_flag("-f,--foreground", options.foreground,
               "stay in the foreground, log to stderr (default: background, syslog)")
      ->group("Mounting");
  app.add_option("-F", rules_, "filter rule as in nccopy, see below; may be repeated")
      ->type_name("VARS,SPEC")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Mounting");
}

Result<bool> MountCommand::is_requested(const CLI::App&) {
  if (arguments_.options.source.empty() || arguments_.options.mountpoint.empty())
    return fail(EINVAL, "usage: codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE MOUNTPOINT (see codecfs --help)");
  for (std::string& rule : rules_) arguments_.filters.rules.push_back({"-F", std::move(rule)});
  CODECFS_TRY(apply_options(arguments_, option_lists_));
  return true;
}

int MountCommand::run() {
  if (!is_there(arguments_)) return 0;
  set_max_chunk_bytes(arguments_.options.max_chunk_bytes);  // worker processes inherit the limit
  Result<filters::FilterRules> rules = set_up_filters(arguments_.filters);
  if (!rules) return report(rules.error(), kUsage);
  if (arguments_.is_fake) return 0;
  const Result<> mounted = mount::run_mount(arguments_.options, *std::move(rules));
  filters::finalize_plugins();
  return mounted ? 0 : report(mounted.error(), kFailed);
}

}  // namespace codecfs::cli
