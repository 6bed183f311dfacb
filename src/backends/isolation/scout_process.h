#pragma once
// The process in which a Scout looks at a file, and how it ends.
//
//   us ---control---> nursery ---fork---> scout     one nursery for the process, one scout for an open file
//    \__________________socket_____________/
//
// The nursery is forked before there are threads and does nothing but to fork scouts: a process with threads cannot be
// forked into one that goes on working. All end when we do, however that happens.
//
// A scout has limits of its own: memory (kScoutMemory), and processor time for each object (kScoutSeconds, more for
// large files: see Limits). What it dies of, and what it was looking at, stays in a page of memory that is shared.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

inline constexpr uint64_t kScoutMemory = uint64_t{768} << 20;  // bytes above what the process has when it begins
inline constexpr unsigned kScoutSeconds = 3;                   // of processor time

/// What a scout leaves behind.
struct ScoutTrace {
  std::atomic<int> pid = 0;
  std::atomic<int> end = 0;           // the signal that it died of, or one of the following; 0: nobody knows
  std::atomic<uint64_t> address = 0;  // of the object that it looks at; 0: none
  std::atomic<uint64_t> steps = 0;    // moves with each object
  std::array<char, 256> reason{};     // of kDamage: what libhdf5 says, as a C string
  static constexpr int kOutOfMemory = -1;
  static constexpr int kDamage = -2;
};

/// The other end of a scout that was just born.
struct ScoutProcess {
  UniqueFd socket;  // SOCK_SEQPACKET; at its end when the scout is
  std::shared_ptr<ScoutTrace> trace;
  /// Ends it, whatever it does.
  void kill();
};

/// Forks the nursery, where there is none. To be called while libhdf5 has nothing open. The sooner, the better: a scout
/// has a copy of our memory as it is now.
void start_nursery();
/// EIO, ENOMEM where no process can be had.
Result<ScoutProcess> start_scout();

/// In the scout: what it is looking at, and a new allowance of processor time.
void note_step(uint64_t address);
/// In the scout: other limits from now on. `file` and `chunk` in bytes: what is larger takes longer.
void set_limits(uint64_t file, uint64_t chunk);
/// In the scout, where memory ran out. Does not return.
[[noreturn]] void end_without_memory();
/// In the scout, where libhdf5 has met damage and says so. What it does then with its own memory is not to be relied
/// on, here nor in those who sent us. Does not return.
[[noreturn]] void end_of_damage(const char* reason);

/// In a process that was just forked: a lock that nobody holds (library_lock.cc).
void renew_library_lock();

/// What a scout does with its socket: scout_work.cc. Returns when we have closed ours.
void serve_scout(int socket);

}  // namespace codecfs::hdf5
