#pragma once
// Takes rights away from a process that runs untrusted code or reads untrusted data: afterwards it can use its open
// descriptors, memory, threads and clocks, but cannot open files or sockets, start programs or processes, or signal and
// trace other processes. These calls fail with EPERM.
//
// A process that needs files can have its file calls answered by another process (file_calls.h): those with a path, and
// those on a descriptor that need rights on the file.

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace codecfs {

enum class SandboxPart : uint32_t {
  no_new_privileges = 1,  // prctl(2), PR_SET_NO_NEW_PRIVS
  no_capabilities = 2,    // capabilities(7)
  limits = 4,             // setrlimit(2): descriptors, core dumps
  system_calls = 8,       // seccomp(2)
  file_calls = 16,        // seccomp_unotify(2): another process answers file calls
};
/// A set of parts, combined with |.
using SandboxParts = uint32_t;
inline constexpr SandboxParts kWholeSandbox = 15;
inline constexpr SandboxParts kWholeFileSandbox = 31;

/// Enters the sandbox, irrevocably, for all threads of this process (capabilities: for this one and those that it
/// starts). `most_files` bounds the numbers of descriptors. Returns the parts that are active now: containers and
/// kernels may lack some.
SandboxParts enter_sandbox(unsigned most_files);

/// The sandbox of enter_sandbox(), but another process answers the file calls of this one, which must have one thread.
struct FileSandbox {
  SandboxParts parts = 0;
  /// For FileCalls. None if this system does not allow a listener: file calls are then not filtered, and the
  /// capabilities for files are kept.
  UniqueFd listener;
};
/// `may_listen`: false if FileCallEnds are missing.
FileSandbox enter_file_sandbox(unsigned most_files, bool may_listen = true);

/// What this kernel supports: "seccomp, file calls answered by the daemon". For --version.
std::string sandbox_support();

/// "no new privileges, no capabilities": for messages. "none" for no parts.
std::string names_of(SandboxParts parts);

}  // namespace codecfs
