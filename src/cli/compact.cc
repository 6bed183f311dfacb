#include "cli/source_command.h"
#include "compact/compact_source.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_compact() {
  return make_source_command(
      "--compact", "rewrite an HDF5 file or zip archive without the space that changes have left unused in it",
      compact_source);
}

}  // namespace codecfs::cli
