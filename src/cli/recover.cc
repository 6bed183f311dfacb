#include "backends/open/source_opener.h"
#include "cli/source_command.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_recover() {
  return make_source_command({"recover", "write such changes to SOURCE now; a mount does so at its first change",
                              "Succeeds also if there is nothing to do. See `codecfs check --help`.\n"
                              "\nExample:\n  codecfs recover data.h5\n"},
                             recover_source);
}

}  // namespace codecfs::cli
