// --help and --version.

#include <fmt/core.h>

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
  void declare(ArgumentParser& parser) override {
    parser.add_flag("-h,--help", help_, {.group = "Information", .text = "print this and exit"});
    parser.add_flag(
        "-V,--version", version_,
        {.group = "Information", .text = "print the versions of codecfs, libfuse, libhdf5 and the codecs, and exit"});
  }

  Result<bool> is_requested(const ArgumentParser& parser) override {
    if (help_)
      text_ = parser.help() + "\n" + mount_options_help();
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
