#include "mount/unmount.h"

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class UnmountCommand final : public Command {
 public:
  void declare(ArgumentParser& parser) override {
    parser.add_value("-u,--unmount", mountpoint_,
                     {.group = "Mounting",
                      .text = "store everything and unmount; reports what could not be stored",
                      .value = "MOUNTPOINT"});
  }

  Result<bool> is_requested(const ArgumentParser& parser) override {
    if (mountpoint_.empty()) return false;
    if (parser.has("SOURCE") || parser.has("-o") || parser.has("-F"))
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
