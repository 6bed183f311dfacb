// codecfs, which is also mount.codecfs and umount.fuse.codecfs if it is called by these names.

#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

#include "base/fail_points.h"
#include "cli/command_line.h"
#include "cli/mount_helper.h"
#include "cli/report.h"
#include "mount/watchdog.h"

int main(int argc, char** argv) {
  codecfs::FailPoints::arm_from_environment();
  std::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond RLIMIT_FSIZE fails with EFBIG
  const std::string_view program = argc > 0 ? argv[0] : "codecfs";
  if (program.substr(program.rfind('/') + 1).starts_with("umount.")) return codecfs::cli::run_umount_helper(argc, argv);
  if (program == codecfs::mount::kWatchdogName) return codecfs::mount::run_watchdog(argc, argv);
  const auto command = codecfs::cli::parse_command_line(argc, argv);
  codecfs::cli::hide_secrets(argc, argv);
  if (!command) return codecfs::cli::report(command.error(), codecfs::cli::kUsage);
  try {
    return (*command)->run();
  } catch (const std::bad_alloc&) {
    return codecfs::cli::report({ENOMEM, "out of memory"}, codecfs::cli::kFailed);
  } catch (const std::system_error& error) {  // a thread that cannot be created
    return codecfs::cli::report({error.code().value(), error.what()}, codecfs::cli::kFailed);
  }
}
