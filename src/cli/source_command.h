#pragma once
// Commands that take the name of a source and print one line about it: `codecfs check SOURCE`.

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command.h"

namespace codecfs::cli {

/// The work of such a command. Returns the line to print.
using SourceWork = Result<std::string> (*)(const std::string& source);

std::unique_ptr<Command> make_source_command(const CommandHelp& help, SourceWork work);

}  // namespace codecfs::cli
