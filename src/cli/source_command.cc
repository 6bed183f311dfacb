#include "cli/source_command.h"

#include <unistd.h>

#include <cstdio>

#include "base/progress_reporter.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class SourceCommand final : public Command {
 public:
  SourceCommand(const char* option, const char* help, SourceWork work) : option_(option), help_(help), work_(work) {}

  void declare(ArgumentParser& parser) override {
    parser.add_value(option_, source_, {.group = "Without mounting", .text = help_, .value = "SOURCE"});
  }

  Result<bool> is_requested(const ArgumentParser&) override { return !source_.empty(); }

  int run() override {
    if (isatty(STDERR_FILENO) != 0) ProgressReporter::show_on_terminal(STDERR_FILENO);
    const Result<std::string> summary = work_(source_);
    if (!summary) return report(summary.error(), kFailed);
    std::printf("%s\n", summary->c_str());
    return 0;
  }

 private:
  const char* const option_;
  const char* const help_;
  const SourceWork work_;
  std::string source_;
};

}  // namespace

std::unique_ptr<Command> make_source_command(const char* option, const char* help, SourceWork work) {
  return std::make_unique<SourceCommand>(option, help, work);
}

}  // namespace codecfs::cli
