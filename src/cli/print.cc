// --help and --version.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "backends/api/source.h"
#include "base/sandbox.h"
#include "cli/command.h"
#include "cli/mount_options.h"
#include "filters/core/codec_json.h"
#include "fs/kernel/fuse_version.h"
#include "version.h"

namespace codecfs::cli {
namespace {

std::string version_text() {
  return fmt::format("codecfs {}\nlibfuse {}\n{}\ncodecs: {}\nsandbox: {}\n", CODECFS_VERSION, fuse_pkgversion(),
                     format_versions(), filters::codec_versions(), sandbox_support());
}

class PrintCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_flag("-h,--help", help_, "print this and exit")->group("Information");
    app.add_flag("-V,--version", version_, "print the versions of codecfs, libfuse, libhdf5 and the codecs, and exit")
        ->group("Information");
  }

  Result<bool> is_requested(const CLI::App& app) override {
    if (help_)
      text_ = app.help() + "\n" + mount_options_help();
    else if (version_)
      text_ = version_text();
    return help_ || version_;
  }

  int run() override {
    std::fputs(text_.c_str(), stdout);
    return 0;
  }

 private:
  bool help_ = false;
  bool version_ = false;
  std::string text_;
};

}  // namespace

std::unique_ptr<Command> make_print() { return std::make_unique<PrintCommand>(); }

}  // namespace codecfs::cli
