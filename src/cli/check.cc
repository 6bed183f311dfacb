#include <utility>

#include "backends/open/source_opener.h"
#include "cli/source_command.h"

namespace codecfs::cli {

std::unique_ptr<Command> make_check() {
  return make_source_command(
      {"check", "report whether a log beside SOURCE holds changes of a killed mount",
       "While a mount writes an HDF5 file, a log beside it holds what was committed. If the mount and its watchdog "
       "were\n"
       "killed, the log stays. The next mount shows these changes, and `codecfs recover` stores them.\n"
       "\nExample:\n  codecfs check data.h5\n"},
      [](const std::string& source) -> Result<std::string> {
        CODECFS_ASSIGN(SourceCheck found, check_source(source));
        // A script that asks about a URL asks about the wrong thing: nothing was looked at.
        if (is_source_url(source)) return fail(EOPNOTSUPP, "{}", found.text);
        return std::move(found.text);
      });
}

}  // namespace codecfs::cli
