// codecfs, which is also mount.codecfs and umount.fuse.codecfs if it is called by these names.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/progress_reporter.h"
#include "filters/plugins/plugins.h"
#include "mount/options.h"
#include "mount/session.h"
#include "mount/unmount.h"
#include "mount/watchdog.h"

using codecfs::Result;
using codecfs::mount::Command;

namespace {

// Exit codes of mount(8).
constexpr int kUsage = 1;
constexpr int kMountFailed = 32;

int report(const codecfs::Error& error, int code) {
  std::string line = error.reason;
  std::ranges::replace(line, '\n', ' ');  // keeps the message on one line if a name contains a newline
  std::fprintf(stderr, "codecfs: %s\n", line.c_str());
  return code;
}

/// The function of a command that does not mount; null for other commands.
Result<std::string> (*work_without_mount(Command::Kind kind))(const std::string& source) {
  switch (kind) {
    case Command::Kind::check_log: return codecfs::check_source;
    case Command::Kind::recover: return codecfs::recover_source;
    case Command::Kind::compact: return codecfs::compact_source;
    default: return nullptr;
  }
}

/// False if the source does not exist and -o nofail permits that.
bool is_there(const codecfs::mount::Options& options) {
  return !options.may_be_missing || !options.create.empty() || access(options.source.c_str(), F_OK) == 0 ||
         errno != ENOENT;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond RLIMIT_FSIZE fails with EFBIG
  const std::string_view program = argc > 0 ? argv[0] : "codecfs";
  if (program.substr(program.rfind('/') + 1).starts_with("umount."))
    return codecfs::mount::run_umount_helper(argc, argv);
  if (program == codecfs::mount::kWatchdogName) return codecfs::mount::run_watchdog(argc, argv);
  const Result<Command> command = codecfs::mount::parse_command_line(argc, argv);
  if (!command) return report(command.error(), kUsage);
  if (const auto work = work_without_mount(command->kind)) {
    if (isatty(STDERR_FILENO) != 0) codecfs::ProgressReporter::show_on_terminal(STDERR_FILENO);
    const Result<std::string> summary = work(command->options.source);
    if (!summary) return report(summary.error(), kMountFailed);
    std::printf("%s\n", summary->c_str());
    return 0;
  }
  if (command->kind == Command::Kind::print) {
    std::fputs(command->text.c_str(), stdout);
    return 0;
  }
  if (command->kind == Command::Kind::unmount) {
    const Result<> unmounted = codecfs::mount::unmount(command->options.mountpoint);
    return unmounted ? 0 : report(unmounted.error(), kMountFailed);
  }
  if (!is_there(command->options)) return 0;
  Result<codecfs::filters::FilterRules> rules = codecfs::mount::set_up_filters(command->options);
  if (!rules) return report(rules.error(), kUsage);
  if (command->kind == Command::Kind::check) return 0;
  const Result<> mounted = codecfs::mount::run_mount(command->options, *std::move(rules));
  codecfs::filters::finalize_plugins();
  return mounted ? 0 : report(mounted.error(), kMountFailed);
}
