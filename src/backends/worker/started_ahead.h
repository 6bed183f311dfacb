#pragma once
// Processes that run libhdf5, up to the moment when they get a file: in a sandbox, without anything of a file.
//
// While files are opened one soon after the other, as in a folder, the next process is started ahead, so that the next
// file need not wait for it. Nothing else of a file is used for another one: each has a process of its own.
// Thread-safe.

#include <chrono>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "base/worker_process.h"

namespace codecfs::worker {

class StartedAhead {
 public:
  /// The one of this program.
  static StartedAhead& instance();

  /// A process that enters its sandbox in this directory, or is in it. Errors of start_worker() and
  /// WorkerProcess::was_started().
  Result<WorkerProcess> take(const std::string& working_directory);
  /// Starts the next one, if it will probably be wanted. Must be called after that which was taken has opened its file:
  /// where there can be no more processes, the file comes first. If it cannot be started, the next file starts its own.
  void start_next(const std::string& working_directory);
  /// Ends the process that was started ahead, if none was taken for so long.
  void end_unused(std::chrono::seconds unused_for);
  /// The number of processes that were started ahead and taken.
  [[nodiscard]] uint64_t taken();

 private:
  struct Process {
    WorkerProcess process;
    std::string working_directory;
  };
  static Result<WorkerProcess> start(const std::string& working_directory);

  Mutex mutex_;
  std::optional<Process> next_ CODECFS_GUARDED_BY(mutex_);
  unsigned in_a_row_ CODECFS_GUARDED_BY(mutex_) = 0;  // taken, one soon after the other
  uint64_t taken_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point latest_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::worker
