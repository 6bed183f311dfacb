#pragma once
// The command that mounts a source: `codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE [MOUNTPOINT]`.

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/mount_options.h"

namespace codecfs::cli {

class MountCommand final : public Command {
 public:
  MountCommand() = default;
  explicit MountCommand(MountArguments arguments) : arguments_(std::move(arguments)) {}

  [[nodiscard]] CommandHelp help() const override;
  void declare(ArgumentParser& parser) override;
  Result<> check() override;

  [[nodiscard]] const MountArguments& arguments() const { return arguments_; }

 private:
  Result<int> work() override;

  MountArguments arguments_;
  std::vector<std::string> option_lists_;  // of each -o
  std::vector<std::string> rules_;         // of each -F
  bool is_chosen_ = false;                 // the mount point, by choose_mountpoint()
};

}  // namespace codecfs::cli
