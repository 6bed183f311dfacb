#include "cli/source_command.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/progress_reporter.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class SourceCommand final : public Command {
 public:
  SourceCommand(CommandHelp help, SourceWork work) : help_(std::move(help)), work_(work) {}

  [[nodiscard]] CommandHelp help() const override { return help_; }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.group = "Arguments", .text = "a dataset", .value = "", .required = true});
  }
  int run() override {
    ProgressReporter::show_on(STDERR_FILENO);
    const Result<std::string> summary = work_(source_);
    if (!summary) return report(summary.error(), kFailed);
    std::printf("%s\n", summary->c_str());
    return 0;
  }

 private:
  const CommandHelp help_;
  const SourceWork work_;
  std::string source_;
};

}  // namespace

std::unique_ptr<Command> make_source_command(const CommandHelp& help, SourceWork work) {
  return std::make_unique<SourceCommand>(help, work);
}

}  // namespace codecfs::cli
