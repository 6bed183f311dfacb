#pragma once
// Takes rights away from a process that runs untrusted code or reads untrusted data: afterwards it can use its open
// descriptors, memory, threads and clocks, but cannot open files or sockets, start programs or processes, or signal and
// trace other processes. These calls fail with EPERM.

#include <cstdint>
#include <string>

namespace codecfs {

enum class SandboxPart : uint32_t {
  no_new_privileges = 1,  // prctl(2), PR_SET_NO_NEW_PRIVS
  no_capabilities = 2,    // capabilities(7)
  limits = 4,             // setrlimit(2): descriptors, core dumps
  system_calls = 8,       // seccomp(2)
};
/// A set of parts, combined with |.
using SandboxParts = uint32_t;
inline constexpr SandboxParts kWholeSandbox = 15;

/// Irrevocably, for all threads of this process (capabilities: for this one and those that it starts). `most_files`
/// bounds the numbers of descriptors. Returns the parts that are active now: containers and kernels may lack some.
SandboxParts enter_sandbox(unsigned most_files);

/// "no new privileges, no capabilities": for messages. "none" for no parts.
std::string names_of(SandboxParts parts);

}  // namespace codecfs
