#include "backends/api/source.h"
#include "cli/source_command.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_recover() {
  return make_source_command("--recover", "write them to SOURCE now; a mount does so at its first change",
                             recover_source);
}

}  // namespace codecfs::cli
