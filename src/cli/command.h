#pragma once
// A command of codecfs. Each is a file of this folder with a line in all.inc.

#include "base/result.h"
#include "cli/argument_parser.h"

namespace codecfs::cli {

class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  /// Adds the arguments of this command to a parser, which stores their values in this object.
  virtual void declare(ArgumentParser& parser) = 0;
  /// Whether the command line that `parser` has parsed requests this command. EINVAL if an argument of the command is
  /// missing or invalid, with a reason that names it.
  virtual Result<bool> is_requested(const ArgumentParser& parser) = 0;
  /// Does the work; reports an error on stderr. Returns the exit code of codecfs.
  virtual int run() = 0;
};

}  // namespace codecfs::cli
