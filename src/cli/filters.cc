#include <memory>

#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "filters/core/filter_table.h"
#include "filters/plugins/plugin_trial.h"

namespace codecfs::cli {
namespace {

class FiltersCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "filters", "list the filters that can be used, or try a plugin library",
        "The list is that of .codecfs/filters in a mount: each filter with its HDF5 id, its Zarr codec and the\n"
        "library that has each half; then the folders that were searched, and the libraries that are not used, with\n"
        "the reason.\n"
        "\n--check loads one library in the sandbox, wherever it is, and prints what it declares. It encodes and\n"
        "decodes chunks of 13 types: zeros, counting numbers, smooth and random ones; tries both conversions of its\n"
        "codec; and decodes damaged chunks. A loss of precision is reported, and is no fault.\n"
        "\nExit codes: 0, the list, or no fault; 2, the library has faults; 32, it cannot be loaded.\n"
        "\nExamples:\n"
        "  codecfs filters\n"
        "  codecfs filters -O plugin_path=/opt/plugins\n"
        "  codecfs filters --check ./libh5mine.so --parameters 9,2.5f\n"
        "  codecfs filters --check ./libh5mine.so --parameters '{\"id\": \"mine\", \"level\": 9}'\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("--check", library_, {.text = "try this library", .value = "LIBRARY"});
    parser.add_value(
        "--parameters", parameters_,
        {.text = "of the filter that is tried: as in a filter spec, without the id, or the JSON of its codec",
         .value = "LIST"});
    options_.declare(parser);
  }
  Result<> check() override {
    if (library_.empty() && !parameters_.empty()) return fail(EINVAL, "filters: --parameters needs --check");
    return options_.prepare();
  }

 private:
  Result<int> work() override {
    if (library_.empty()) return print(filters::filter_table());
    const Result<filters::PluginTrial> trial = filters::try_plugin(library_, parameters_);
    if (!trial && trial.error().code == EINVAL) return report(trial.error(), kUsage);
    CODECFS_TRY(trial);
    return print(trial->text, trial->is_right ? 0 : kFound);
  }

  std::string library_;
  std::string parameters_;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_filters() { return std::make_unique<FiltersCommand>(); }

}  // namespace codecfs::cli
