#include "cli/mount_helper.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/mount.h"
#include "cli/report.h"
#include "mount/unmount.h"

namespace codecfs::cli {

Result<std::unique_ptr<Command>> parse_mount_helper(int argc, const char* const* argv) {
  MountArguments arguments;
  std::vector<std::string> lists;
  std::vector<std::string> positional;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.size() < 2 || argument[0] != '-') {
      positional.emplace_back(argument);
      continue;
    }
    for (size_t at = 1; at < argument.size(); ++at) {
      const char letter = argument[at];
      if (letter == 'f') arguments.is_fake = true;
      if (std::string_view("sfnv").find(letter) != std::string_view::npos) continue;
      if (std::string_view("oNt").find(letter) == std::string_view::npos)
        return fail(EINVAL, "mount.codecfs: unknown option -{}; usage: mount.codecfs SOURCE DIRECTORY [-o OPTIONS]",
                    letter);
      std::string value(argument.substr(at + 1));
      if (value.empty()) {
        if (i + 1 == argc) return fail(EINVAL, "mount.codecfs: -{} needs a value", letter);
        value = argv[++i];
      }
      if (letter == 'o') lists.push_back(std::move(value));
      break;
    }
  }
  if (positional.size() != 2) return fail(EINVAL, "usage: mount.codecfs SOURCE DIRECTORY [-sfnv] [-o OPTIONS]");
  arguments.options.source = positional[0];
  arguments.options.mountpoint = positional[1];
  CODECFS_TRY(apply_options(arguments, lists));
  return std::make_unique<MountCommand>(std::move(arguments));
}

int run_umount_helper(int argc, const char* const* argv) {
  std::string directory;
  bool lazy = false;
  bool force = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.size() > 1 && argument[0] == '-') {
      lazy |= argument.find('l') != argument.npos;
      force |= argument.find('f') != argument.npos;
      if (argument == "-t" || argument == "-N" || argument == "-O") ++i;
    } else if (directory.empty()) {
      directory = argument;
    } else {
      directory.clear();
      break;
    }
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: umount.fuse.codecfs DIRECTORY [-flnrv]\n");
    return kUsage;
  }
  const Result<int> code = mount::unmount_for_umount(directory, lazy, force);
  if (code) return *code;
  std::fprintf(stderr, "umount.fuse.codecfs: %s\n", code.error().reason.c_str());
  return kFailed;
}

}  // namespace codecfs::cli
