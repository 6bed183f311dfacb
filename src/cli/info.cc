#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "backends/open/source_opener.h"
#include "base/terminal_text.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/dataset_details.h"
#include "commands/dataset_info.h"
#include "commands/info_listing.h"
#include "commands/overview/overview_page.h"
#include "commands/overview/page_file.h"
#include "commands/overview/text_picture.h"
#include "commands/workers.h"
#include "model/json.h"
#include "version.h"

namespace codecfs::cli {
namespace {

constexpr size_t kValues = 10;  // of a variable, with -v
// The attributes of more groups and variables take longer than all the rest: JSON has them with -v.
constexpr size_t kQuickDetails = 10'000;

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
        "  codecfs info -v era5.nc              everything with attributes and first values, like ncdump\n"
        "  codecfs info era5.nc temperature --plot\n"
        "  codecfs info era5.nc --html era5.html\n"
        "  codecfs info --json store.zarr | jq '.variables[] | select(.stored_bytes > 1e9) | .path'\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset, or a folder of datasets", .required = true});
    parser.add_value("VAR", variable_, {.text = "a variable or group in it"});
    parser.add_flag("-v,--verbose", is_verbose_, {.text = "with attributes, dimensions and first values"});
    parser.add_flag("--json", as_json_, {.text = "print JSON"});
    parser.add_flag("--plot", plots_, {.text = "draw the variable VAR, with its least, greatest and mean"});
    parser.add_value("--html", page_,
                     {.text = "write a page with a picture of each variable; -: on stdout", .value = "FILE"});
    options_.declare(parser);
  }
  Result<> check() override {
    if (static_cast<int>(as_json_) + static_cast<int>(plots_) + static_cast<int>(!page_.empty()) > 1)
      return fail(EINVAL, "--json, --plot and --html exclude each other");
    return options_.prepare();
  }

 private:
  Result<int> work() override {
    commands::catch_signals();
    if (!page_.empty()) CODECFS_TRY(commands::overview::check_page_file(page_));
    CODECFS_ASSIGN(const std::unique_ptr<Source> source, options_.open(source_));
    const commands::OpenAgain open_again = [this] { return options_.open(source_); };
    CODECFS_ASSIGN(commands::DatasetInfo info,
                   commands::read_info(*source, shown_source(source_), variable_, open_again));
    if (!page_.empty()) return write_page(*source, info);
    if (plots_) return plot(*source, info);
    if (as_json_) return print_as_json(*source, info, open_again);
    return print_as_text(*source, info, open_again);
  }

  Result<int> print_as_json(Source& source, commands::DatasetInfo& info, const commands::OpenAgain& open_again) {
    std::vector<std::optional<commands::FirstValues>> values;
    if (is_verbose_ || info.nodes.size() <= kQuickDetails)
      CODECFS_TRY(commands::read_details(source, info, SIZE_MAX, open_again));
    if (is_verbose_) {
      CODECFS_ASSIGN(values, commands::all_first_values(source, info, kValues));
    }
    return print(print_json(commands::info_json(info, values), 2) + "\n");
  }

  Result<int> print_as_text(Source& source, commands::DatasetInfo& info, const commands::OpenAgain& open_again) {
    const size_t width = terminal_columns(STDOUT_FILENO);
    const commands::InfoNode& first = info.nodes[0];
    const bool is_variable = first.variable && !variable_.empty();
    if (is_variable && !first.variable->facts) return std::unexpected(*first.variable->error);
    if (is_verbose_) {
      CODECFS_TRY(commands::read_details(source, info, SIZE_MAX, open_again));
      CODECFS_ASSIGN(const auto values, commands::all_first_values(source, info, kValues));
      return print(commands::listing_text(info, values, width));
    }
    if (is_variable) {
      CODECFS_ASSIGN(const VariablePtr described, source.variable(first.entry.object));
      return print(commands::variable_text(first, *described, width));
    }
    return print(commands::info_text(info, width, has_colours(width)));
  }

  Result<int> plot(Source& source, commands::DatasetInfo& info) {
    if (!info.nodes[0].variable)
      return fail(EINVAL, "{} is a group: --plot needs the name of a variable",
                  variable_.empty() ? shown_source(source_) : variable_);
    CODECFS_TRY(commands::read_details(source, info, 1));
    const size_t width = terminal_columns(STDOUT_FILENO);
    return print(commands::overview::plot_text(source, info.nodes[0],
                                               {.columns = width == 0 ? 80 : width, .colours = has_colours(width)}));
  }

  Result<int> write_page(Source& source, commands::DatasetInfo& info) {
    CODECFS_ASSIGN(const std::string page, commands::overview::make_page(source, info, {}, "codecfs " CODECFS_VERSION));
    if (page_ == "-") return print(page);
    CODECFS_TRY(commands::overview::write_page_file(page_, page, source_));
    return 0;
  }

  /// `width`: of stdout.
  static bool has_colours(size_t width) {
    const char* const no_color = std::getenv("NO_COLOR");
    return width != 0 && (no_color == nullptr || *no_color == '\0');
  }

  std::string source_;
  std::string variable_;
  std::string page_;
  bool is_verbose_ = false;
  bool as_json_ = false;
  bool plots_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_info() { return std::make_unique<InfoCommand>(); }

}  // namespace codecfs::cli
