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
#include "base/mutex.h"
#include "base/result.h"
#include "base/rpc/calls.h"
#include "base/shared_channel.h"
#include "base/unique_fd.h"
#include "remote/object_file.h"

namespace codecfs::worker {

class WorkerSession;

class WorkerClient {
 public:
  /// `held`: changes that each new process must make again. Must outlive the client. `latest`: Hdf5Options::latest.
  WorkerClient(std::string path, bool may_write, bool latest, HeldWrites& held);
  /// For a file in an object store, to read.
  WorkerClient(std::shared_ptr<remote::ObjectFile> object, HeldWrites& held);
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  /// Starts the first process, which opens the file. The errors of open_hdf5(). `twin`: another client, which must not
  /// write, whose numbers of objects this one takes over.
  Result<> open(const WorkerClient* twin = nullptr);
  /// What the file said when it was opened.
  [[nodiscard]] const Opened& opened() const { return opened_; }
  /// The file, for reading; of one in an object store, what is mirrored of it.
  [[nodiscard]] const UniqueFd& fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] hdf5::SharedState& shared() const { return *shared_; }

  /// A call of the table (calls.h). EINTR: Interruption of the thread, if the file is in an object store.
  template <auto function, class... Arguments>
  Result<rpc::ValueOf<function>> call(Arguments&&... arguments) {
    rpc::Encoder request;
    rpc::put_arguments<function>(request, arguments...);
    return call_encoded<rpc::ValueOf<function>>(call_of<function>, request, progress_in(arguments...));
  }
  /// As call(), for one of a change, which has a number.
  template <auto function, class... Arguments>
  Result<rpc::ValueOf<function>> edit(uint64_t number, const Arguments&... arguments) {
    rpc::Encoder request;
    request.put(number);
    rpc::put_arguments<function>(request, arguments...);
    return call_encoded<rpc::ValueOf<function>>(call_of<function>, request);
  }
  /// The arguments as put into `request`.
  template <class R>
  Result<R> call_encoded(Call call, const rpc::Encoder& request, Progress* progress = nullptr) {
    Result<R> answer;
    CODECFS_TRY(transact(call, request, progress, [&](rpc::Decoder in) { rpc::get_answer(in, answer); }));
    return answer;
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

  template <class... Arguments>
  static Progress* progress_in(Arguments&... arguments) {
    Progress* found = nullptr;
    (
        [&](auto& argument) {
          if constexpr (std::is_same_v<decltype(argument), Progress&>) found = &argument;
        }(arguments),
        ...);
    return found;
  }
  Result<> transact(Call call, const rpc::Encoder& request, Progress* progress,
                    const std::function<void(rpc::Decoder)>& use);
  Result<SessionPtr> current();
  SessionPtr running_session();
  Result<SessionPtr> start() CODECFS_REQUIRES(starting_);
  Result<> open_in(WorkerSession& session) CODECFS_REQUIRES(starting_);
  Result<> continue_writing(WorkerSession& session, Channel& channel) CODECFS_REQUIRES(starting_);
  /// Whether the end of the process is a defect of an object that was not known.
  bool learn(uint64_t address, const std::string& cause, Call call);
  /// Whether what libhdf5 has reported is a defect of an object that was not known.
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
