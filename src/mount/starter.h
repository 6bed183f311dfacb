#pragma once
// The process that starts a mount in the background, and the daemon that it becomes.
//
// The daemon is forked at once, before there are threads. Until the mount is ready it belongs to the terminal of the
// starter, which waits: its messages appear there, a program that asks for credentials can use it, and Ctrl-C or the
// end of the starter ends a mount that hangs.

#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

class Starter {
 public:
  /// In the foreground: this process is the daemon.
  Starter() = default;

  /// Forks. Returns in both processes: none in the daemon; in the starter, when the mount is ready or has failed, the
  /// exit code of the command. Must be called before there are threads.
  Result<std::optional<int>> fork_daemon();
  /// In the daemon, when the mount is ready: leaves the terminal and the working directory, and lets the starter end.
  /// Does nothing in the foreground. From here on messages must not go to stderr.
  Result<> mounted();

 private:
  UniqueFd told_;  // what is written to it is read by the starter
};

}  // namespace codecfs::mount
