#pragma once
// The processes in which a Scout checks files.
//
//   daemon ---control---> fork server ---fork---> scout     one fork server per daemon, one scout per open file
//       \_____________________socket______________/
//
// The fork server is forked before there are threads and only forks scouts, because the child of a multithreaded
// process must not continue with arbitrary code. All these processes end when the daemon ends, in whatever way.
//
// A scout has limits for memory (kScoutMemory) and for processor time per object (kScoutSeconds, more for large files:
// see set_limits()). The cause of its crash and the object that it was checking stay in a page of shared memory.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

inline constexpr uint64_t kScoutMemory = uint64_t{768} << 20;  // bytes in addition to its memory at the start
inline constexpr unsigned kScoutSeconds = 3;                   // of processor time

/// The shared page in which a scout records what it does.
struct ScoutTrace {
  std::atomic<int> pid = 0;
  std::atomic<int> end = 0;           // the fatal signal, or one of the following; 0: killed by another program
  std::atomic<uint64_t> address = 0;  // of the object being checked; 0: none
  std::atomic<uint64_t> steps = 0;    // incremented at each object
  std::array<char, 256> reason{};     // for kDamage: libhdf5's message, as a C string
  static constexpr int kOutOfMemory = -1;
  static constexpr int kDamage = -2;
};

/// A new scout, as its parent sees it.
struct ScoutProcess {
  UniqueFd socket;  // SOCK_SEQPACKET; end of file when the scout ends
  std::shared_ptr<ScoutTrace> trace;
  /// Kills the scout, even if it does not respond.
  void kill();
};

/// Starts the fork server if it is not running. Must be called while libhdf5 has no file open, and should be called
/// early: a scout inherits a copy of our memory at this time.
void start_fork_server();
/// EIO, ENOMEM if no process can be started.
Result<ScoutProcess> start_scout();

/// In the scout: records the object being checked and restarts the processor time limit.
void note_step(uint64_t address);
/// In the scout: sets the limits. `file` and `chunk` in bytes: larger ones get more time.
void set_limits(uint64_t file, uint64_t chunk);
/// In the scout, when memory is exhausted. Does not return.
[[noreturn]] void exit_out_of_memory();
/// In the scout, when libhdf5 reports damage: after that its own memory may be corrupted, in this process as it would
/// be in the daemon. Does not return.
[[noreturn]] void exit_damaged(const char* reason);

/// In a forked process: replaces the lock, which a thread that does not exist here may have held (library_lock.cc).
void reset_library_lock();

/// The main loop of a scout: scout_work.cc. Returns when the daemon has closed its end of the socket.
void serve_scout(int socket);

}  // namespace codecfs::hdf5
