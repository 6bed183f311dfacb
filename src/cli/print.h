#pragma once
// --help and --version.

#include <memory>
#include <string>

#include "cli/command.h"

namespace codecfs::cli {

/// The command that prints a text on stdout.
std::unique_ptr<Command> make_print(std::string text);

/// The versions of codecfs, libfuse, libhdf5 and the codecs.
std::string version_text();

}  // namespace codecfs::cli
