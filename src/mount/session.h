#pragma once
// A mount from beginning to end.

#include "base/result.h"
#include "mount/options.h"

namespace codecfs::mount {

/// Opens the source, mounts it, goes to the background (unless told otherwise) once the mount is there, serves until
/// somebody unmounts it or SIGTERM, SIGINT or SIGHUP arrives, and unmounts. An error means that nothing was
/// mounted, or that at the end something could not be stored.
/// `rules` are those of the options (set_up_filters).
Result<> run_mount(const Options& options, filters::FilterRules rules);

}  // namespace codecfs::mount
