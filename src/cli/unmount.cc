#include "mount/unmount.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class UnmountCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("-u,--unmount", mountpoint_, "store everything and unmount; reports what could not be stored")
        ->type_name("MOUNTPOINT")
        ->group("Mounting");
  }

  Result<bool> is_requested(const CLI::App& app) override {
    if (mountpoint_.empty()) return false;
    if (!app.get_option("SOURCE")->as<std::string>().empty() || app.count("-o") > 0 || app.count("-F") > 0)
      return fail(EINVAL, "usage: codecfs --unmount MOUNTPOINT");
    return true;
  }

  int run() override {
    const Result<> unmounted = mount::unmount(mountpoint_);
    return unmounted ? 0 : report(unmounted.error(), kFailed);
  }

 private:
  std::string mountpoint_;
};

}  // namespace

std::unique_ptr<Command> make_unmount() { return std::make_unique<UnmountCommand>(); }

}  // namespace codecfs::cli
