// codecfs, and mount.codecfs where it is called by that name.

#include <algorithm>
#include <cstdio>
#include <string>

#include "filters/plugins/plugins.h"
#include "fs/options.h"
#include "fs/session.h"

using codecfs::Result;
using codecfs::fs::Command;

namespace {

// Exit codes as mount(8) has them.
constexpr int kUsage = 1;
constexpr int kMountFailed = 32;

int report(const codecfs::Error& error, int code) {
  std::string line = error.reason;
  std::ranges::replace(line, '\n', ' ');  // a newline in a name: the message stays one line
  std::fprintf(stderr, "codecfs: %s\n", line.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Command> command = codecfs::fs::parse_command_line(argc, argv);
  if (!command) return report(command.error(), kUsage);
  if (command->kind == Command::Kind::print) {
    std::fputs(command->text.c_str(), stdout);
    return 0;
  }
  Result<codecfs::filters::FilterRules> rules = codecfs::fs::set_up_filters(command->options);
  if (!rules) return report(rules.error(), kUsage);
  if (command->kind == Command::Kind::check) return 0;
  const Result<> mounted = codecfs::fs::run_mount(command->options, *std::move(rules));
  codecfs::filters::finalize_plugins();
  return mounted ? 0 : report(mounted.error(), kMountFailed);
}
