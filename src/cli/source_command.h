#pragma once
// Commands that an option with the name of a source requests, and that print one line about it: --check SOURCE.

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command.h"

namespace codecfs::cli {

/// The work of such a command. Returns the line to print.
using SourceWork = Result<std::string> (*)(const std::string& source);

/// `option` and `help` must be string literals.
std::unique_ptr<Command> make_source_command(const char* option, const char* help, SourceWork work);

}  // namespace codecfs::cli
