#pragma once
// The command line of codecfs:
//
//   codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE MOUNTPOINT    mounts
//   codecfs NAME ARGUMENTS                                           the commands of all.inc
//   codecfs --check SOURCE, --recover, --compact, -u MOUNTPOINT      the names that some commands had before
//   mount.codecfs SOURCE DIRECTORY [-o OPTIONS]                      as mount(8) calls it
//
// A source with the name of a command is mounted as ./NAME.

#include <memory>

#include "base/result.h"
#include "cli/command.h"

namespace codecfs::cli {

/// The command that a command line requests. EINVAL with a reason that names the argument.
Result<std::unique_ptr<Command>> parse_command_line(int argc, const char* const* argv);

/// Overwrites the queries of URLs among the words, which may be signatures, so that other users do not see them in ps.
void hide_secrets(int argc, char** argv);

}  // namespace codecfs::cli
