#pragma once
// Calls to the process that runs libhdf5 for one file, and its replacement if it ends. Thread-safe.
//
// A call is repeated on the next process if its own was killed by another program: clients see nothing but a delay. A
// call that ends its process itself (crash, too much memory or processor time) is repeated once and then refused, that
// call only; if the cause is an object of the file, that object is refused from then on (it is damaged).
//
// The next process continues with the numbers of objects (NodeJournal) and with all changes that were reported as done,
// because they are in the log. If the file was being written, it begins with recovering the log.

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/source/shared_state.h"
#include "backends/worker/calls.h"
#include "backends/worker/file_broker.h"
#include "backends/worker/held_writes.h"
#include "backends/worker/wire.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/shared_channel.h"
#include "base/unique_fd.h"
#include "remote/object_file.h"

namespace codecfs::worker {

class WorkerSession;

class WorkerClient {
 public:
  /// `held`: changes that each new process must make again. Must outlive the client. `latest`: Hdf5Options::latest.
  WorkerClient(std::string path, bool may_write, bool latest, HeldWrites& held);
  /// The same of a file in an object store, to read.
  WorkerClient(std::shared_ptr<remote::ObjectFile> object, HeldWrites& held);
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  /// Starts the first process, which opens the file. The errors of open_hdf5(). `twin`: another client, which must not
  /// write, whose numbers of objects this one takes over.
  Result<> open(const WorkerClient* twin = nullptr);
  /// What the file said when it was opened.
  struct Opened {
    std::string format;
    struct stat status{};
    Entry root;
    Result<> writable;
  };
  [[nodiscard]] const Opened& opened() const { return opened_; }
  /// The file, for reading; of one in an object store, what is mirrored of it.
  [[nodiscard]] const UniqueFd& fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] hdf5::SharedState& shared() const { return *shared_; }

  /// EINTR: Interruption of the thread, if the file is in an object store.
  template <class R, class... Arguments>
  Result<R> call(Call call, const Arguments&... arguments) {
    return call_with_progress<R>(call, nullptr, arguments...);
  }
  template <class R, class... Arguments>
  Result<R> call_with_progress(Call call, Progress* progress, const Arguments&... arguments) {
    Encoder request;
    (request.put(arguments), ...);
    return call_encoded<R>(call, request, progress);
  }
  /// The arguments as put into `request`.
  template <class R>
  Result<R> call_encoded(Call call, const Encoder& request, Progress* progress = nullptr) {
    // Not an optional Result: GCC 12 (-O2) moves that wrongly here, and its text is freed twice.
    using Value = std::conditional_t<std::is_void_v<R>, bool, R>;
    Value value{};
    Error error{.code = 0, .reason = {}};
    CODECFS_TRY(transact(call, request, progress, [&](Decoder in) { in.get_result<R>(value, error); }));
    if (error.code != 0) return std::unexpected(std::move(error));
    if constexpr (std::is_void_v<R>)
      return {};
    else
      return value;
  }
  /// From now on each new process begins with acquiring the right to write, which recovers the log.
  void set_writing() { writing_ = true; }
  /// From now on no other process is started if this one ends: calls fail with EIO.
  void forbid_restart() { is_final_ = true; }
  /// Ends the process, and so gives back all memory of libhdf5, if there was no call for so long. The next call starts
  /// another one.
  void end_unused(std::chrono::seconds unused_for);
  /// Forgets which calls were refused.
  void forget_refusals();
  /// The process id, 0 if there is none; the number of processes that were started, and why the latest one ended.
  struct State {
    int pid = 0;
    unsigned started = 0;
    std::string last_end;
  };
  State state();

 private:
  using SessionPtr = std::shared_ptr<WorkerSession>;

  Result<> transact(Call call, const Encoder& request, Progress* progress, const std::function<void(Decoder)>& use);
  Result<SessionPtr> current();
  SessionPtr running_session();
  Result<SessionPtr> start() CODECFS_REQUIRES(starting_);
  Result<> open_in(WorkerSession& session) CODECFS_REQUIRES(starting_);
  Result<> continue_writing(WorkerSession& session, Channel& channel) CODECFS_REQUIRES(starting_);
  /// Whether the end of the process is a defect of an object that was not known.
  bool learn(uint64_t address, const std::string& cause, Call call);
  /// The same of what libhdf5 has reported.
  bool learn_report(uint64_t address, const Error& report);
  bool remember(uint64_t address, const std::string& cause, Error error) CODECFS_REQUIRES(mutex_);

  const std::string path_;  // absolute
  const std::string working_directory_;
  const bool may_write_;
  const bool latest_;
  HeldWrites& held_;
  const std::shared_ptr<remote::ObjectFile> object_;  // null for a local file
  UniqueFd fd_;
  UniqueFd shared_fd_;
  UniqueFd journal_;
  std::unique_ptr<FileBroker> broker_;
  std::shared_ptr<hdf5::SharedState> shared_;
  Opened opened_;
  std::atomic<bool> writing_ = false;
  std::atomic<bool> is_final_ = false;
  std::atomic<std::chrono::steady_clock::time_point> latest_call_ = std::chrono::steady_clock::now();

  Mutex starting_{LockRank::worker_start};
  Mutex mutex_{LockRank::worker_client};  // locked after starting_
  SessionPtr session_ CODECFS_GUARDED_BY(mutex_);
  unsigned started_ CODECFS_GUARDED_BY(mutex_) = 0;
  unsigned defects_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::string last_end_ CODECFS_GUARDED_BY(mutex_);
  std::map<uint64_t, Error> damaged_ CODECFS_GUARDED_BY(mutex_);               // by address
  std::unordered_map<std::string, Error> refused_ CODECFS_GUARDED_BY(mutex_);  // by the bytes of the call
};

}  // namespace codecfs::worker
