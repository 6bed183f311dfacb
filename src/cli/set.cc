#include <fmt/core.h>

#include <memory>

#include "cli/command.h"
#include "cli/report.h"
#include "filters/core/filter_spec.h"
#include "filters/core/stock_filters.h"
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
    CODECFS_ASSIGN(const mount::FiltersSet set, mount::set_filters(path_, spec_));
    const int printed = print(fmt::format("{}: {}\n", path_, set.now));
    const auto chain = filters::parse_filter_spec(set.now);
    const std::string plugins = set.is_hdf5 && chain ? filters::plugins_needed(*chain) : "";
    return plugins.empty() ? printed : print_plugins(path_, plugins);
  }

  std::string path_;
  std::string spec_;
};

}  // namespace

std::unique_ptr<Command> make_set() { return std::make_unique<SetCommand>(); }

}  // namespace codecfs::cli
