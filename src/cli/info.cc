#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "backends/open/source_opener.h"
#include "base/terminal_text.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/dataset_info.h"
#include "model/json.h"

namespace codecfs::cli {
namespace {

class InfoCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "info", "print the variables of a dataset with their types, shapes, filters and sizes",
        "A column `stored` has the bytes of the chunks in the file, `ratio` what the filters gain. Filters that are\n"
        "not installed are named, with where to get them. Colours are used on a terminal, unless NO_COLOR is set.\n"
        "\nExamples:\n"
        "  codecfs info era5.nc\n"
        "  codecfs info era5.nc temperature     one variable with its attributes and codecs\n"
        "  codecfs info --json store.zarr | jq '.variables[] | select(.stored_bytes > 1e9) | .path'\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset, or a folder of datasets", .required = true});
    parser.add_value("VAR", variable_, {.text = "a variable or group in it"});
    parser.add_flag("--json", as_json_, {.text = "print JSON"});
    options_.declare(parser);
  }
  Result<> check() override { return options_.prepare(); }

 private:
  Result<int> work() override {
    CODECFS_ASSIGN(const std::unique_ptr<Source> source, options_.open(source_));
    CODECFS_ASSIGN(const commands::DatasetInfo info, commands::read_info(*source, shown_source(source_), variable_,
                                                                         [this] { return options_.open(source_); }));
    const size_t width = terminal_columns(STDOUT_FILENO);
    const commands::InfoNode& first = info.nodes[0];
    if (first.variable && !variable_.empty() && !as_json_) {
      if (!first.variable->facts) return std::unexpected(*first.variable->error);
      CODECFS_ASSIGN(const VariablePtr described, source->variable(first.entry.object));
      return print(commands::variable_text(first, *described, width));
    }
    if (as_json_) return print(print_json(commands::info_json(info), 2) + "\n");
    const char* const no_color = std::getenv("NO_COLOR");
    return print(commands::info_text(info, width, width != 0 && (no_color == nullptr || *no_color == '\0')));
  }

  std::string source_;
  std::string variable_;
  bool as_json_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_info() { return std::make_unique<InfoCommand>(); }

}  // namespace codecfs::cli
