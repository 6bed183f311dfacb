#pragma once
// A command of codecfs: `codecfs NAME ARGUMENTS`. Each is a file of this folder with a line in all.inc.

#include <string>

#include "base/result.h"
#include "cli/argument_parser.h"
#include "cli/report.h"

namespace codecfs::cli {

/// What --help tells about a command.
struct CommandHelp {
  const char* name;     // "info"; empty for the mount, which needs no name
  const char* summary;  // one line, for `codecfs --help` and as the first line of `codecfs NAME --help`
  std::string details;  // for the end of `codecfs NAME --help`: paragraphs and examples
};

class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  [[nodiscard]] virtual CommandHelp help() const = 0;
  /// Adds the arguments of this command to a parser, which stores their values in this object.
  virtual void declare(ArgumentParser& parser) = 0;
  /// Called when they are stored. EINVAL if one is invalid, with a reason that names it.
  virtual Result<> check() { return {}; }
  /// Does the work, and reports an error on stderr. Returns the exit code of codecfs.
  int run() {
    const Result<int> code = work();
    return code ? *code : report(code.error(), kFailed);
  }

 private:
  /// Prints what it has found or done. The exit code, or an error for which it is kFailed.
  virtual Result<int> work() = 0;
};

}  // namespace codecfs::cli
