#include "cli/command_line.h"

#include <string_view>
#include <utility>
#include <vector>

#include "cli/mount.h"
#include "cli/mount_helper.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_print();
#define CODECFS_COMMAND(name) std::unique_ptr<Command> make_##name();
#include "cli/all.inc"
#undef CODECFS_COMMAND

namespace {

/// All commands in the order of --help.
std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<MountCommand>());
#define CODECFS_COMMAND(name) commands.push_back(make_##name());
#include "cli/all.inc"
#undef CODECFS_COMMAND
  commands.push_back(make_print());
  return commands;
}

}  // namespace

Result<std::unique_ptr<Command>> parse_command_line(int argc, const char* const* argv) {
  const std::string_view program = argc > 0 ? argv[0] : "codecfs";
  if (program.substr(program.rfind('/') + 1).starts_with("mount.")) return parse_mount_helper(argc, argv);

  ArgumentParser parser(
      "codecfs",
      "Mounts an HDF5 or netCDF-4 file, a Zarr v2 directory or zip archive, or a folder of them, as a tree of decoded\n"
      "chunk files.");
  std::vector<std::unique_ptr<Command>> commands = all_commands();
  for (const auto& command : commands) command->declare(parser);
  if (const auto parsed = parser.parse(argc, argv); !parsed)
    return fail(parsed.error().code, "{} (see codecfs --help)", parsed.error().reason);
  // --help and --version take precedence. A command line without another command requests a mount.
  std::swap(commands.front(), commands.back());
  for (auto& command : commands) {
    CODECFS_ASSIGN(const bool requested, command->is_requested(parser));
    if (requested) return std::move(command);
  }
  std::unreachable();
}

}  // namespace codecfs::cli
