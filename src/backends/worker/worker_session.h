#pragma once
// One process that runs libhdf5, from its start to its end. Thread-safe.
//
// It has no thread of its own, because the program forks when it becomes a daemon: what the process sends beside its
// answers, and its file calls, are handled by the threads that wait for answers. Without a call there is no such
// thread, but then nothing waits for the process either.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/processes.h"
#include "backends/api/source.h"
#include "backends/api/written_sources.h"
#include "backends/worker/fetch_slots.h"
#include "backends/worker/file_broker.h"
#include "base/file_calls.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "remote/object_file.h"

namespace codecfs::worker {

/// See protections_of_sources().
SourceProtections describe_protections();

class WorkerSession {
 public:
  /// EIO: what libhdf5 reports; kNewerFormat: why it cannot read the object. Returns whether this was not known.
  using OnDamage = std::function<bool(uint64_t address, const Error& report)>;

  /// What the process inherits from the previous one (see calls.h).
  struct Inheritance {
    int shared = -1;
    int journal = -1;
    const std::string& working_directory;
    std::shared_ptr<remote::ObjectFile> object;  // null for a local file
  };
  /// Starts the process. `broker`: executes its file calls; must outlive this. `on_damage`: called from any function.
  static Result<std::shared_ptr<WorkerSession>> start(const Inheritance& inheritance, FileBroker& broker,
                                                      OnDamage on_damage);
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
  /// As give_back(), while an answer has not arrived, for which the process may wait long. False if there are too many
  /// such.
  bool abandon(std::unique_ptr<Connection>& connection);
  /// Whether no call waits for an answer but abandoned ones.
  [[nodiscard]] bool is_unused();

  /// Waits until an answer has arrived or the process has ended, at most for some milliseconds (-1: no limit), and
  /// handles what it sends meanwhile. False if the time is over.
  bool wait(const Channel& channel, int milliseconds);
  /// Handles what it has sent, and returns whether it has ended.
  bool has_ended();
  /// Makes no system call.
  [[nodiscard]] bool was_seen_to_end() const { return ended_; }
  /// Waits until it has ended and everything that it has sent was handled. `kill`: ends it.
  void await_end(bool kill);
  /// FileBroker::take_refusal() of the thread that serves this connection.
  std::string take_refusal(Channel& channel);
  [[nodiscard]] const WorkerTrace& trace() const { return *process_.trace; }
  /// What it has reported before it ended, in this order of importance.
  enum class Damage { none, known, unknown };
  [[nodiscard]] Damage reported() const { return reported_; }
  [[nodiscard]] std::string cause_of_end() const { return process_.cause_of_end(); }
  /// Whether a plugin ended it.
  [[nodiscard]] bool ended_in_library() const { return process_.ended_in_library(); }

 private:
  WorkerSession(FileBroker& broker, OnDamage on_damage) : broker_(broker), on_damage_(std::move(on_damage)) {}
  void answer_file_calls();
  [[nodiscard]] int listener() const { return file_calls_ ? file_calls_->listener() : -1; }
  void take_late_answers() CODECFS_REQUIRES(mutex_);
  void fetch(const FetchRequest& request);
  void send_plugins() CODECFS_REQUIRES(control_mutex_);
  void handle(const std::string& message, std::vector<UniqueFd> fds) CODECFS_REQUIRES(control_mutex_);

  FileBroker& broker_;
  const OnDamage on_damage_;
  WorkerProcess process_;
  // Set before start() returns.
  bool is_in_sandbox_ = false;
  std::shared_ptr<remote::ObjectFile> object_;
  std::shared_ptr<FetchSlots> slots_;  // with object_
  std::unique_ptr<FileCalls> file_calls_;

  std::atomic<bool> ended_ = false;
  std::atomic<Damage> reported_ = Damage::none;
  Mutex mutex_{LockRank::worker_session};
  std::vector<std::unique_ptr<Connection>> idle_ CODECFS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> abandoned_ CODECFS_GUARDED_BY(mutex_);
  uint32_t connections_ CODECFS_GUARDED_BY(mutex_) = 0;
  Mutex control_mutex_{LockRank::worker_control};                // held while a message is received and handled
  bool has_plugins_ CODECFS_GUARDED_BY(control_mutex_) = false;  // was sent them
  std::map<uint64_t, std::unique_ptr<WrittenSource>> written_ CODECFS_GUARDED_BY(control_mutex_);
};

}  // namespace codecfs::worker
