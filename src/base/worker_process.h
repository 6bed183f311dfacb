#pragma once
// Processes that run code which may crash, hang or exhaust memory.
//
//   daemon ---control---> supervisor ---fork---> worker     two supervisors per daemon, any number of workers
//       \___________________control____________/
//
// The first supervisor is forked before there are threads, because the child of a multithreaded process must not run
// arbitrary code; it forks the second. They only fork: workers, and each other's replacement if one was killed. All
// these processes end when the daemon ends, in whatever way.
//
// A worker has limits for its memory and for the processor time of each step. If one is exceeded, or a fatal signal
// arrives, the cause stays in a page of shared memory (WorkerTrace) and the worker ends; its descriptors are closed, so
// that the daemon notices.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// The page in which a worker records what it does; `end` and what follows it are set at its end.
struct WorkerTrace {
  std::atomic<int> pid = 0;
  std::atomic<int> end = 0;           // the fatal signal, or one of the constants; 0: killed by another program
  std::atomic<uint32_t> culprit = 0;  // what was given to begin_step() in the thread that failed; 0: none
  std::atomic<uint64_t> address = 0;  // the last note_access() of that thread
  std::array<char, 256> reason{};     // a C string: for kDamaged; else the library in whose code it ended, if any
  // Free for the worker's own use; survives the worker.
  std::array<std::atomic<uint64_t>, 300> words{};
  static constexpr int kOutOfMemory = -1;
  static constexpr int kDamaged = -2;
  static constexpr int kOutOfTime = -3;
  static constexpr int kTooSlow = -4;  // code of a library did not return in time
  static constexpr int kOutOfThreads = -5;
  static constexpr int kNotStarted = -6;  // there can be no more processes: `culprit` is an errno
};

/// A worker, as the daemon sees it.
struct WorkerProcess {
  UniqueFd control;  // SOCK_SEQPACKET; end of file when the worker ends
  std::shared_ptr<WorkerTrace> trace;
  int pid = 0;  // by await_start(); 0: that in `trace`, which an untrusted worker may change

  WorkerProcess() = default;
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess() { kill(); }
  /// EAGAIN or ENOMEM if await_start() is false because there can be no more processes; the worker was not killed then.
  [[nodiscard]] Result<> was_started() const;
  /// Waits until it runs. To be called before the worker runs untrusted code: what that writes to `trace` does not
  /// affect kill() then. False if the worker has ended.
  bool await_start();
  /// Kills it, even if it does not respond, and closes `control`.
  void kill();
  /// As kill(), without closing `control`; for any thread.
  void end() const;
  /// Waits until it has ended, so that its locks are released.
  void await_end() const;
  /// "crashes (Segmentation fault)": why it has ended, as the predicate of a sentence. Empty if it was killed by
  /// another program.
  [[nodiscard]] std::string cause_of_end() const;
  /// Whether it ended in the code of a library (LibraryCode), which the cause names.
  [[nodiscard]] bool ended_in_library() const;
};

/// What a worker runs: `control` is its end of WorkerProcess::control. The worker ends when it returns.
using WorkerMain = void (*)(int control);

/// Starts the supervisors if they are not running. Must be called before threads are created, by a process that will
/// start workers. `prepare` is called in the first one, so that its workers find it done.
void start_supervisors(void (*prepare)() = nullptr);
/// Starts a worker. EIO, ENOMEM if no process can be started.
Result<WorkerProcess> start_worker(WorkerMain main);

/// The page of shared memory of this worker. Null in processes that are not workers.
WorkerTrace* own_trace();

/// In a worker, for the calling thread: `culprit` identifies what it does from now on, and ends the worker after so
/// many seconds of processor time without progress (0: no limit), or up to one more. Progress is a call of
/// note_access() or a change of `progress`, which may be null and must outlive the step.
void begin_step(uint32_t culprit, unsigned seconds, const std::atomic<uint64_t>* progress = nullptr);
void end_step();
/// What was given to begin_step() in this thread; 0: none.
[[nodiscard]] uint32_t current_step();
/// During its lifetime, the calling thread takes part in the step of another one.
class [[nodiscard]] JoinedStep {
 public:
  explicit JoinedStep(uint32_t culprit);
  ~JoinedStep();
  JoinedStep(const JoinedStep&) = delete;
  JoinedStep& operator=(const JoinedStep&) = delete;

 private:
  const uint32_t before_;
};
/// The limit of this thread's step begins anew, and is longer from now on.
void extend_step(unsigned more_seconds);
/// Records which object of the input is accessed. Makes no system call.
void note_access(uint64_t address);
/// The last of this thread's step; 0: none.
[[nodiscard]] uint64_t accessed_address();
/// In a worker, during the lifetime of this, the calling thread runs code of a library that may crash, or wait for
/// ever: the cause of an end names the library, and the worker ends after so many seconds, also if it only waits. 0: no
/// limit. `library` must outlive this.
class LibraryCode {
 public:
  LibraryCode(const char* library, unsigned seconds);
  ~LibraryCode();
  LibraryCode(const LibraryCode&) = delete;
  LibraryCode& operator=(const LibraryCode&) = delete;

 private:
  const char* const outer_;
};
/// Limits the memory that the worker may allocate from now on, in bytes; a failed allocation ends it.
void limit_memory(uint64_t more);
/// End the worker, with the cause.
[[noreturn]] void end_out_of_memory();
[[noreturn]] void end_out_of_threads();
[[noreturn]] void end_damaged(const char* reason);

}  // namespace codecfs
