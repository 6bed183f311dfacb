#include "commands/compare.h"

#include <memory>
#include <utility>

#include "backends/api/adapted_source.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::cli {
namespace {

class CompareCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "compare", "report how the contents of two datasets differ, whatever their formats and filters",
        "Compares groups, variables, types, shapes, names of dimensions, attributes and all elements, on all cores.\n"
        "Formats, chunks, filters and byte orders do not matter, nor do fill values where chunks are stored.\n"
        "Elements are the same if their bits are. What only HDF5 has is not compared: the widths of the types of\n"
        "attributes, names of enumerations, committed types, fill values, links, the largest extents of dimensions.\n"
        "A difference is of the form where the values are the same: [5] and 5, true and 1, 5 and 5.0 in attributes,\n"
        "texts of a fixed length and of any. All others are of the content.\n"
        "\nExit codes: 0, the same; 2, different; 3, no difference, but something could not be compared; 32, a\n"
        "source cannot be read at all.\n"
        "\nExamples:\n"
        "  codecfs compare era5.nc era5.zarr\n"
        "  codecfs compare before.h5 after.h5\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("A", one_, {.text = "a dataset", .required = true});
    parser.add_value("B", other_, {.text = "another one", .required = true});
    parser.add_flag("--json", as_json_, {.text = "print JSON"});
    options_.declare(parser);
  }
  Result<> check() override { return options_.prepare(); }

 private:
  Result<int> work() override {
    commands::catch_signals();
    CODECFS_ASSIGN(std::unique_ptr<Source> one, options_.open(one_));
    CODECFS_ASSIGN(std::unique_ptr<Source> other, options_.open(other_));
    // A netCDF file has texts of UTF-32 in another form.
    const bool has_file = one->format().starts_with("Zarr") != other->format().starts_with("Zarr");
    if (has_file)
      for (std::unique_ptr<Source>* const source : {&one, &other})
        *source = adapt_source(std::move(*source), {.strings = StringForm::utf8});
    CODECFS_ASSIGN(const commands::Comparison found, commands::compare(*one, *other));
    const int code = found.differences > 0 ? kFound : found.unknown.empty() ? 0 : kIncomplete;
    if (as_json_) return print(print_json(commands::comparison_json(found, one_, other_), 2) + "\n", code);
    return print(commands::comparison_text(found, one_, other_), code);
  }

  std::string one_;
  std::string other_;
  bool as_json_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<CompareCommand>(); }

}  // namespace codecfs::cli
