#pragma once
// One process that runs libhdf5, from its start to its end. Thread-safe.
//
// It has no thread of its own, because the program forks when it becomes a daemon: what the process sends beside its
// answers is handled by the threads that wait for answers.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/written_sources.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"

namespace codecfs::worker {

class WorkerSession {
 public:
  using OnDamage = std::function<void(uint64_t address, std::string reason)>;

  /// Starts the process with what it inherits from the previous one (see calls.h). `on_damage`: called from any
  /// function.
  static Result<std::shared_ptr<WorkerSession>> start(int shared, int journal, OnDamage on_damage);
  /// Kills the process.
  ~WorkerSession();
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  /// A connection for one call at a time.
  struct Connection {
    Channel channel;
    uint32_t number = 0;  // WorkerTrace::culprit
  };
  /// EPIPE if the process has ended.
  Result<std::unique_ptr<Connection>> connect();
  void give_back(std::unique_ptr<Connection> connection);

  /// Waits until an answer has arrived or the process has ended, at most for some milliseconds (-1: no limit), and
  /// handles what it sends meanwhile. False if the time is over.
  bool wait(const Channel& channel, int milliseconds);
  /// Handles what it has sent, and returns whether it has ended.
  bool has_ended();
  /// Waits until it has ended and everything that it has sent was handled. `kill`: ends it.
  void await_end(bool kill);
  [[nodiscard]] const WorkerTrace& trace() const { return *process_.trace; }
  [[nodiscard]] std::string cause_of_end() const { return process_.cause_of_end(); }

 private:
  explicit WorkerSession(OnDamage on_damage) : on_damage_(std::move(on_damage)) {}
  void handle(const std::string& message, std::vector<UniqueFd> fds) CODECFS_REQUIRES(control_mutex_);

  const OnDamage on_damage_;
  WorkerProcess process_;
  std::atomic<bool> ended_ = false;
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_ CODECFS_GUARDED_BY(mutex_);
  uint32_t connections_ CODECFS_GUARDED_BY(mutex_) = 0;
  Mutex control_mutex_;  // held while a message is received and handled
  std::map<uint64_t, std::unique_ptr<WrittenSource>> written_ CODECFS_GUARDED_BY(control_mutex_);
};

}  // namespace codecfs::worker
