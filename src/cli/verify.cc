#include "commands/verify.h"

#include <memory>

#include "backends/open/source_opener.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::cli {
namespace {

class VerifyCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "verify", "read and decode everything in a dataset, and report what is damaged",
        "Reads all attributes and chunks with their checksums, on all cores. In an HDF5 file, chunks must also lie in\n"
        "the file and not overlap. A damaged chunk is named with the elements that are lost. Only damage\n"
        "that a filter detects (checksums, most compressors) is found.\n"
        "\nExit codes: 0, no damage; 2, damage; 3, none, but something could not be checked (a filter or a source of "
        "a\n"
        "virtual dataset is missing, or a newer HDF5 wrote it); 32, the source cannot be read at all.\n"
        "\nExamples:\n"
        "  codecfs verify era5.nc\n"
        "  codecfs verify --json store.zarr > report.json || echo damaged\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset, or a folder of datasets", .required = true});
    parser.add_flag("--json", as_json_, {.text = "print JSON"});
    options_.declare(parser);
  }
  Result<> check() override { return options_.prepare(); }

 private:
  Result<int> work() override {
    commands::catch_signals();
    CODECFS_ASSIGN(const std::unique_ptr<Source> source, options_.open(source_));
    CODECFS_ASSIGN(const commands::Verification found, commands::verify(*source));
    const int code = found.damages > 0 ? kFound : found.unchecked.empty() ? 0 : kIncomplete;
    if (as_json_) return print(print_json(commands::verification_json(found, shown_source(source_)), 2) + "\n", code);
    return print(commands::verification_text(found, shown_source(source_)), code);
  }

  std::string source_;
  bool as_json_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<VerifyCommand>(); }

}  // namespace codecfs::cli
