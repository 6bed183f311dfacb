#include "mount/unmount.h"

#include <memory>
#include <string>

#include "cli/command.h"

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
    parser.add_value("MOUNTPOINT", mountpoint_, {.text = "where codecfs has mounted a source", .required = true});
  }

 private:
  Result<int> work() override {
    CODECFS_TRY(mount::unmount(mountpoint_));
    return 0;
  }

  std::string mountpoint_;
};

}  // namespace

std::unique_ptr<Command> make_unmount() { return std::make_unique<UnmountCommand>(); }

}  // namespace codecfs::cli
