#include <fmt/core.h>

#include <memory>

#include "cli/command.h"
#include "cli/report.h"
#include "mount/status.h"

namespace codecfs::cli {
namespace {

class SetCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "set", "change the filters of a variable in a mount",
        "The same as setfattr -n user._Filter -v SPEC PATH, which cannot tell why it failed; and with the progress on\n"
        "a terminal. For a group, the filters of new variables in it. Prints the filters that are set then.\n"
        "\nExamples:\n"
        "  codecfs set ~/mnt/temperature 'shuffle|zstd,3'\n"
        "  codecfs set ~/mnt/temperature none\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("PATH", path_, {.text = "the directory of a variable or group in a mount", .required = true});
    parser.add_value("SPEC", spec_, {.text = "filters as in nccopy: shuffle|zstd,3, or none", .required = true});
  }

 private:
  Result<int> work() override {
    CODECFS_ASSIGN(const std::string now, mount::set_filters(path_, spec_));
    return print(fmt::format("{}: {}\n", path_, now));
  }

  std::string path_;
  std::string spec_;
};

}  // namespace

std::unique_ptr<Command> make_set() { return std::make_unique<SetCommand>(); }

}  // namespace codecfs::cli
