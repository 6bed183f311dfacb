#include "backends/open/source_opener.h"
#include "cli/source_command.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_compact() {
  return make_source_command(
      {"compact", "rewrite an HDF5 file or zip archive without the space that changes have left unused in it",
       "No program may have the source open. The new file is complete and synced before it replaces the old one.\n"
       "\nExample:\n  codecfs compact data.h5\n"},
      [](const std::string& path) { return compact_source(path); });
}

}  // namespace codecfs::cli
