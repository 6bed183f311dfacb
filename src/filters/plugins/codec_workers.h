#pragma once
// The processes that run one plugin library for the daemon, which never loads it. At most one per processor, started
// when they are needed; each has loaded the library and serves one call at a time. They end with the daemon.
//
// A call is repeated on a new worker if another program kills its worker; one that kills its worker itself is repeated
// once, then it fails, and only it. One that does not return is not repeated; if the next one does not either,
// calls are refused for some minutes, so that not each chunk waits as long. States of a worker: starting (loads the
// library), idle, in a call, ended.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/rpc/attempts.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "filters/plugins/codec_calls.h"
#include "filters/plugins/plugin_calls.h"

namespace codecfs::filters {

/// What one call may take. Long chunks get more.
struct CodecCallLimits {
  std::chrono::seconds processor{10};         // of the thread that calls the plugin
  std::chrono::seconds processor_per_mib{1};  // in addition, for each MiB of input and expected output
  std::chrono::seconds elapsed{60};           // more than 8 times the processor time; for plugins that wait
  std::chrono::seconds loading{10};
  uint64_t memory = uint64_t{1} << 30;  // bytes, in addition to four times the input and expected output
};

class CodecWorkers final : public PluginCalls {
 public:
  /// Starts the first worker, which loads the library. `path`: absolute, without links; `shown`: its name in messages.
  /// ENOEXEC with the loader's reason; EIO "crashes while it is loaded (Segmentation fault)".
  static Result<std::shared_ptr<CodecWorkers>> start(const std::string& path, const std::string& shown,
                                                     const CodecCallLimits& limits = {});
  ~CodecWorkers() override;

  [[nodiscard]] const PluginDescription& description() const { return description_; }
  /// What confines the workers.
  [[nodiscard]] SandboxParts protections() const { return protections_; }
  /// How many workers have ended before they were told to.
  [[nodiscard]] uint64_t ended() const;

  Result<Buffer> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) override;
  Result<std::vector<uint32_t>> parameters_of(size_t codec, const std::string& json) override;
  Result<std::string> codec_of(size_t codec, std::span<const uint32_t> parameters) override;
  Result<ModifiedParameters> modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                 const ChunkShape& chunk) override;
  /// HDF5's can_apply or set_local: the filter's parameters afterwards. EINVAL, ENOTSUP.
  Result<std::vector<uint32_t>> prepare_dataset(const DatasetToPrepare& dataset);
  void finalize() override;
  [[nodiscard]] std::string state() const override;

 private:
  struct Worker {
    WorkerProcess process;
    Channel channel;
    uint32_t serial = 0;  // of the latest request
  };
  using WorkerPtr = std::unique_ptr<Worker>;
  struct Request {
    uint32_t call = 0;  // of CodecTable
    rpc::Encoder arguments = {};
    uint64_t expected = 0;  // bytes of the result
  };
  /// Why a worker did not answer.
  struct End {
    rpc::End kind = rpc::End::killed;
    std::string cause;  // the predicate of a sentence; empty if another program killed it
  };
  struct Exchange {
    Result<Channel::Message> answer;
    std::optional<End> end;  // set if the worker has ended; `answer` is then an error
  };

  CodecWorkers(std::string path, std::string shown, const CodecCallLimits& limits);
  class Borrowed;
  Result<WorkerPtr> start_one();
  Result<WorkerPtr> load_in_new_worker();
  Result<WorkerPtr> acquire();
  void release(WorkerPtr worker, bool has_answered = false);
  void note_end(WorkerPtr worker, const End& end);
  Exchange exchange(Worker& worker, const Request& request, std::chrono::seconds elapsed) const;
  static End end_of(Worker& worker);
  [[nodiscard]] unsigned processor_seconds(const Request& request) const;
  [[nodiscard]] std::chrono::seconds elapsed_limit(const Request& request) const;
  template <auto function, class... Arguments>
  static Request request_of(const Arguments&... arguments) {
    Request request{.call = CodecTable::number<function>};
    rpc::put_arguments<function>(request.arguments, arguments...);
    return request;
  }
  /// Returns `use(value)` of a successful call, a Result. The worker serves no other call meanwhile.
  template <class Value, class Use>
  auto call_and_use(const Request& request, const Use& use) -> decltype(use(std::declval<Value>()));
  template <auto function, class... Arguments>
  auto call(const Arguments&... arguments) {
    using Value = rpc::ValueOf<function>;
    return call_and_use<Value>(request_of<function>(arguments...), [](Value value) -> Result<Value> { return value; });
  }

  const std::string path_;
  const std::string shown_;
  const CodecCallLimits limits_;
  const size_t most_workers_;
  PluginDescription description_;  // constant after start(), as is what follows
  SandboxParts protections_ = 0;

  mutable Mutex mutex_;
  ConditionVariable released_;
  std::vector<WorkerPtr> idle_ CODECFS_GUARDED_BY(mutex_);
  size_t running_ CODECFS_GUARDED_BY(mutex_) = 0;  // idle, starting, or in a call
  uint64_t ended_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::string latest_cause_ CODECFS_GUARDED_BY(mutex_);
  unsigned late_ CODECFS_GUARDED_BY(mutex_) = 0;  // calls that did not return, since one did
  std::chrono::steady_clock::time_point rests_until_ CODECFS_GUARDED_BY(mutex_);  // calls are refused
};

}  // namespace codecfs::filters
