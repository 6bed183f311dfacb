#pragma once
// Runs a mount.

#include "base/result.h"
#include "filters/core/filter_rules.h"
#include "mount/options.h"
#include "mount/starter.h"

namespace codecfs::mount {

/// Opens the source, mounts it, lets the starter end when the mount is ready, serves until it is unmounted or SIGTERM,
/// SIGINT or SIGHUP arrives, and unmounts. An error means that nothing was mounted, or that not all data could be
/// stored at the end. `rules`: the filter rules of the mount.
Result<> run_mount(const Options& options, filters::FilterRules rules, Starter& starter);

}  // namespace codecfs::mount
