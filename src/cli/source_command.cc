#include "cli/source_command.h"

#include <unistd.h>

#include <utility>

#include "base/progress_reporter.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class SourceCommand final : public Command {
 public:
  SourceCommand(CommandHelp help, SourceWork of_source) : help_(std::move(help)), of_source_(of_source) {}

  [[nodiscard]] CommandHelp help() const override { return help_; }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset", .required = true});
  }

 private:
  Result<int> work() override {
    ProgressReporter::show_on(STDERR_FILENO);
    CODECFS_ASSIGN(const std::string summary, of_source_(source_));
    return print(summary + "\n");
  }

  const CommandHelp help_;
  const SourceWork of_source_;
  std::string source_;
};

}  // namespace

std::unique_ptr<Command> make_source_command(const CommandHelp& help, SourceWork work) {
  return std::make_unique<SourceCommand>(help, work);
}

}  // namespace codecfs::cli
