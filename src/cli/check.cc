#include "backends/api/source.h"
#include "cli/source_command.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_check() {
  return make_source_command("--check", "report whether a log beside SOURCE holds changes of a killed mount",
                             check_source);
}

}  // namespace codecfs::cli
