#include "cli/print.h"

#include <fmt/core.h>

#include <utility>

#include "backends/api/newer_format.h"
#include "base/sandbox.h"
#include "cli/report.h"
#include "filters/core/codec_json.h"
#include "fs/passthrough/fuse_version.h"
#include "version.h"

namespace codecfs::cli {
namespace {

class PrintCommand final : public Command {
 public:
  explicit PrintCommand(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] CommandHelp help() const override { return {"", "", ""}; }
  void declare(ArgumentParser&) override {}

 private:
  Result<int> work() override { return print(text_); }

  const std::string text_;
};

}  // namespace

std::unique_ptr<Command> make_print(std::string text) { return std::make_unique<PrintCommand>(std::move(text)); }

std::string version_text() {
  return fmt::format("codecfs {}\nlibfuse {}\n{}\ncodecs: {}\nsandbox: {}\n", CODECFS_VERSION, fuse_pkgversion(),
                     hdf5_version(), filters::codec_versions(), sandbox_support());
}

}  // namespace codecfs::cli
