#include "mount/unmount.h"

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/report.h"

namespace codecfs::cli {
namespace {

class UnmountCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {"unmount", "store everything and unmount; reports what could not be stored",
            "Returns when the daemon has stored everything and has ended. `fusermount3 -u` returns at once; the daemon "
            "then\n"
            "stores what was written, and errors are in its log only.\n"
            "\nExample:\n  codecfs unmount ~/mnt\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value(
        "MOUNTPOINT", mountpoint_,
        {.group = "Arguments", .text = "where codecfs has mounted a source", .value = "", .required = true});
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
