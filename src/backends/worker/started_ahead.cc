#include "backends/worker/started_ahead.h"

#include <utility>

#include "backends/worker/calls.h"
#include "backends/worker/hdf5_worker.h"

namespace codecfs::worker {

StartedAhead& StartedAhead::instance() {
  static auto& only = *new StartedAhead;  // never destroyed: threads may use it until the program ends
  return only;
}

/// Does not wait until it runs.
Result<WorkerProcess> StartedAhead::start(const std::string& working_directory) {
  CODECFS_ASSIGN(WorkerProcess process, start_worker(run_hdf5_worker));
  (void)send_note(process.control.get(), {}, Note::start, working_directory);  // its end is noticed later
  return process;
}

Result<WorkerProcess> StartedAhead::take(const std::string& working_directory) {
  constexpr std::chrono::seconds kSoon{1};
  std::optional<Process> ahead;
  {
    const LockGuard lock(mutex_);
    ahead = std::exchange(next_, std::nullopt);
    const auto now = std::chrono::steady_clock::now();
    in_a_row_ = now - std::exchange(latest_, now) < kSoon ? in_a_row_ + 1 : 1;
  }
  const bool is_ready = ahead && ahead->working_directory == working_directory && ahead->process.await_start();
  WorkerProcess process;
  if (is_ready) {
    process = std::move(ahead->process);
  } else {
    CODECFS_ASSIGN(process, start(working_directory));
    if (!process.await_start()) CODECFS_TRY(process.was_started());
  }
  if (is_ready) {
    const LockGuard lock(mutex_);
    ++taken_;
  }
  return process;
}

void StartedAhead::start_next(const std::string& working_directory) {
  constexpr unsigned kAhead = 3;  // in a row: a command opens a file twice
  {
    const LockGuard lock(mutex_);
    if (in_a_row_ < kAhead || next_) return;
  }
  auto next = start(working_directory);
  const LockGuard lock(mutex_);
  if (next && !next_) next_ = {*std::move(next), working_directory};
}

void StartedAhead::end_unused(std::chrono::seconds unused_for) {
  std::optional<Process> unused;  // ends it
  const LockGuard lock(mutex_);
  if (std::chrono::steady_clock::now() - latest_ < unused_for) return;
  unused = std::exchange(next_, std::nullopt);
  in_a_row_ = 0;
}

uint64_t StartedAhead::taken() {
  const LockGuard lock(mutex_);
  return taken_;
}

}  // namespace codecfs::worker
