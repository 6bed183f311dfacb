#include "filters/plugins/codec_workers.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/fd_passing.h"
#include "base/log.h"
#include "base/threads.h"
#include "filters/plugins/codec_worker_main.h"

namespace codecfs::filters {
namespace {

constexpr uint64_t kMaxExpansion = 64;  // of the input, for limits of time
constexpr std::chrono::seconds kFinalizing{2};
constexpr int kEndMilliseconds = 1000;
constexpr uint32_t kMaxHead = uint32_t{4} << 20;  // bytes of an answer without what a filter returns
constexpr int kKilled = ECONNRESET;               // by another program
constexpr const char* kTooLate = "did not finish in time";
// A call that does not return must not make each chunk wait for the limit again: until a call succeeds, the limit of
// the next one is short, and after the second late one all are refused for some time.
constexpr std::chrono::seconds kShort{5};
constexpr unsigned kMaxLate = 2;
constexpr std::chrono::minutes kRest{10};

bool is_readable(int socket, std::chrono::seconds limit) {
  pollfd event{socket, POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const int ready = ::poll(&event, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

// Once for the process.
void log_protections(SandboxParts parts) {
  static std::once_flag logged;
  std::call_once(logged, [&] {
    if (parts == kWholeSandbox)
      log::debug("plugins run in processes with {}", names_of(parts));
    else
      log::warning("plugins run in processes without {}, which this system does not allow; with {}",
                   names_of(kWholeSandbox & ~parts), names_of(parts));
  });
}

bool has_ended(const WorkerProcess& process) {
  pollfd event{process.control.get(), 0, 0};  // POLLHUP is always reported
  return ::poll(&event, 1, 0) != 0;
}

}  // namespace

CodecWorkers::CodecWorkers(std::string path, std::string shown, const CodecCallLimits& limits)
    : path_(std::move(path)), shown_(std::move(shown)), limits_(limits), most_workers_(core_count()) {}

CodecWorkers::~CodecWorkers() { CodecWorkers::finalize(); }

Result<std::shared_ptr<CodecWorkers>> CodecWorkers::start(const std::string& path, const std::string& shown,
                                                          const CodecCallLimits& limits) {
  const std::shared_ptr<CodecWorkers> made(new CodecWorkers(path, shown, limits));
  CODECFS_ASSIGN(WorkerPtr first, made->start_one());
  {
    const LockGuard guard(made->mutex_);
    made->running_ = 1;
  }
  made->release(std::move(first));
  return made;
}

// --- calls

Result<Buffer> CodecWorkers::filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) {
  if (in.empty()) return fail(EIO, "there are no bytes to filter");
  const auto copy = [&](Bytes out) -> Result<Buffer> {
    if (out.empty()) return fail(EIO, "{} returns no bytes", shown_);
    if (out.size() > most) return fail(EIO, "{} made {} bytes, more than {}", shown_, out.size(), most);
    return Buffer::copy_of(out);
  };
  Request request = request_of<&CodecService::filter>(flags, parameters, in, most);
  request.expected = most;
  return call_and_use<Bytes>(request, copy);
}

Result<std::vector<uint32_t>> CodecWorkers::parameters_of(size_t codec, const std::string& json) {
  return call<&PluginCalls::parameters_of>(codec, json);
}

Result<std::string> CodecWorkers::codec_of(size_t codec, std::span<const uint32_t> parameters) {
  return call<&PluginCalls::codec_of>(codec, parameters);
}

Result<ModifiedParameters> CodecWorkers::modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                             const ChunkShape& chunk) {
  return call<&PluginCalls::modified_parameters>(codec, parameters, chunk);
}

Result<std::vector<uint32_t>> CodecWorkers::prepare_dataset(const DatasetToPrepare& dataset) {
  return call<&CodecService::prepare_dataset>(dataset);
}

/// Counts a worker as ended that an exception has destroyed.
class CodecWorkers::Borrowed {
 public:
  Borrowed(CodecWorkers& all, WorkerPtr& worker) : all_(all), worker_(worker) {}
  ~Borrowed() {
    if (worker_ == nullptr) return;
    worker_.reset();
    const LockGuard guard(all_.mutex_);
    --all_.running_;
    all_.released_.notify_one();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  CodecWorkers& all_;
  WorkerPtr& worker_;  // null once it was released, or its end noted
};

template <class Value, class Use>
auto CodecWorkers::call_and_use(const Request& request, const Use& use) -> decltype(use(std::declval<Value>())) {
  rpc::Attempts attempts;
  for (;;) {
    CODECFS_ASSIGN(WorkerPtr worker, acquire());
    const Borrowed borrowed(*this, worker);
    Exchange exchanged = exchange(*worker, request, elapsed_limit(request));
    if (exchanged.answer) {
      rpc::Decoder in(exchanged.answer->head, exchanged.answer->bulk);
      auto answer = in.get<Result<Value>>();
      if (in.is_complete()) {
        decltype(use(std::declval<Value>())) used = answer ? use(*std::move(answer)) : pass_on(answer);
        release(std::move(worker), true);
        return used;
      }
      exchanged.end = End{rpc::End::crashed, "returns an invalid answer"};
    }
    if (!exchanged.end) {
      release(std::move(worker));
      return pass_on(exchanged.answer);
    }
    const End end = *std::move(exchanged.end);
    note_end(std::move(worker), end);
    if (attempts.again(end.kind)) continue;
    if (end.kind == rpc::End::killed)
      return fail(EIO, "{}: the process that runs it was killed {} times", shown_, rpc::Attempts::kMaxKills);
    return fail(EIO, "{} {}", shown_, end.cause);
  }
}

unsigned CodecWorkers::processor_seconds(const Request& request) const {
  const uint64_t in = request.arguments.bulk.size();
  const uint64_t bytes = in + std::min(request.expected, kMaxExpansion * in);
  return static_cast<unsigned>(limits_.processor.count() +
                               static_cast<int64_t>(bytes >> 20) * limits_.processor_per_mib.count());
}

std::chrono::seconds CodecWorkers::elapsed_limit(const Request& request) const {
  const auto whole = limits_.elapsed + 8 * std::chrono::seconds(processor_seconds(request));
  const LockGuard guard(mutex_);
  return late_ == 0 ? whole : std::min(whole, kShort + std::chrono::seconds(request.arguments.bulk.size() >> 20));
}

CodecWorkers::Exchange CodecWorkers::exchange(Worker& worker, const Request& request,
                                              std::chrono::seconds elapsed) const {
  const Bytes bulk = request.arguments.bulk;
  rpc::Encoder out;
  out.put(RequestHead{.serial = ++worker.serial,
                      .seconds = processor_seconds(request),
                      .memory = limits_.memory + (4 * (bulk.size() + request.expected) >> 24 << 24)});
  const Result<> sent = worker.channel.send(request.call, out.head + request.arguments.head, bulk);
  if (!sent && sent.error().code == ENOMEM) return {std::unexpected(sent.error()), std::nullopt};
  if (!sent) return {std::unexpected(sent.error()), end_of(worker)};
  if (!is_readable(worker.channel.socket(), elapsed)) {
    worker.process.kill();
    return {fail(EIO, "too late"), End{rpc::End::late, kTooLate}};
  }
  Result<Channel::Message> answer = worker.channel.receive(kMaxHead);
  if (answer && answer->kind == worker.serial) return {std::move(answer), std::nullopt};
  if (answer || answer.error().code == EPROTO) {
    worker.process.kill();
    return {fail(EIO, "invalid"), End{rpc::End::crashed, "returns an invalid answer"}};
  }
  return {std::move(answer), end_of(worker)};
}

// --- workers

CodecWorkers::End CodecWorkers::end_of(Worker& worker) {
  // A plugin may have closed the channel alone, so do not wait forever.
  pollfd event{worker.process.control.get(), 0, 0};
  const bool ended = ::poll(&event, 1, kEndMilliseconds) > 0;
  std::string cause = ended ? worker.process.cause_of_end() : "closes the connection to the daemon";
  if (cause.empty() && worker.process.trace->words[kExitWord] != 0) cause = "ends the process";
  const bool is_late = worker.process.trace->end == WorkerTrace::kOutOfTime;
  worker.process.kill();
  if (cause.empty()) return {};
  return {is_late ? rpc::End::late : rpc::End::crashed, std::move(cause)};
}

Result<CodecWorkers::WorkerPtr> CodecWorkers::acquire() {
  for (;;) {
    WorkerPtr worker;
    {
      UniqueLock lock(mutex_);
      const auto is_resting = [&]() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
        return std::chrono::steady_clock::now() < rests_until_;
      };
      while (!is_resting() && idle_.empty() && running_ >= most_workers_) released_.wait(lock);
      if (is_resting())
        return fail(EIO, "{} did not finish a call in time; it is called again {} minutes later", shown_,
                    kRest.count());
      if (idle_.empty()) {
        ++running_;
      } else {
        worker = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (worker != nullptr) {
      if (!has_ended(worker->process)) return worker;
      const End end = end_of(*worker);  // killed while it was idle
      note_end(std::move(worker), end);
      continue;
    }
    Result<WorkerPtr> started;
    try {
      started = start_one();
    } catch (const std::bad_alloc&) {
      started = fail(ENOMEM, "out of memory");
    }
    if (started) return started;
    {
      const LockGuard guard(mutex_);
      --running_;
      released_.notify_one();
    }
    const int code = started.error().code;
    const bool is_exhausted = code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE;
    return fail(is_exhausted ? code : EIO, "{}: {}", shown_, started.error().reason);
  }
}

void CodecWorkers::release(WorkerPtr worker, bool has_answered) {
  const LockGuard guard(mutex_);
  if (has_answered) late_ = 0;
  idle_.push_back(std::move(worker));
  released_.notify_one();
}

void CodecWorkers::note_end(WorkerPtr worker, const End& end) {
  if (end.cause.empty())
    log::info("a process that runs plugin {} was killed; it is replaced", shown_);
  else
    log::warning("plugin {} {}; its process is replaced", shown_, end.cause);
  worker.reset();
  const LockGuard guard(mutex_);
  --running_;
  ++ended_;
  latest_cause_ = end.cause.empty() ? "killed by another program" : end.cause;
  if (end.cause == kTooLate && ++late_ >= kMaxLate) rests_until_ = std::chrono::steady_clock::now() + kRest;
  released_.notify_all();
}

Result<CodecWorkers::WorkerPtr> CodecWorkers::start_one() {
  for (rpc::Attempts attempts;;) {
    Result<WorkerPtr> started = load_in_new_worker();
    if (started || started.error().code != kKilled) return started;
    if (!attempts.again(rpc::End::killed))
      return fail(EIO, "the processes that load it were killed {} times", rpc::Attempts::kMaxKills);
  }
}

Result<CodecWorkers::WorkerPtr> CodecWorkers::load_in_new_worker() {
  CODECFS_ASSIGN(WorkerProcess process, start_worker(run_codec_worker));
  if (!process.await_start()) {
    CODECFS_TRY(process.was_started());
    return fail(kKilled, "killed by another program");
  }
  CODECFS_ASSIGN(auto connection, Channel::make());
  auto& [channel, other] = connection;
  auto worker = std::make_unique<Worker>(std::move(process), std::move(channel));
  const bool sent =
      send_datagram(worker->process.control.get(), "codec", std::array{other.socket.get(), other.memory.get()});
  other = {};
  Exchange loaded = sent ? exchange(*worker, request_of<&CodecService::load>(path_, shown_), limits_.loading)
                         : Exchange{fail(EPIPE, "ended"), end_of(*worker)};
  if (loaded.end) {
    const std::string& cause = loaded.end->cause;
    if (cause.empty()) return fail(kKilled, "killed by another program");
    if (cause == kTooLate) return fail(EIO, "did not finish loading within {} s", limits_.loading.count());
    const size_t verb = std::min(cause.find(" ("), cause.size());
    return fail(EIO, "{} while it is loaded{}", cause.substr(0, verb), cause.substr(verb));
  }
  if (!loaded.answer) return pass_on(loaded.answer);
  rpc::Decoder in(loaded.answer->head, loaded.answer->bulk);
  auto answer = in.get<Result<CodecService::Loaded>>();
  if (!in.is_complete()) return fail(EIO, "returns an invalid answer while it is loaded");
  if (!answer) return fail(ENOEXEC, "{}", answer.error().reason);
  if (description_.path.empty()) {
    description_ = std::move(answer->description);
    description_.path = shown_;
    protections_ = answer->protections;
    log_protections(protections_);
  }
  return worker;
}

void CodecWorkers::finalize() {
  std::vector<WorkerPtr> workers;
  {
    const LockGuard guard(mutex_);
    workers = std::exchange(idle_, {});
    running_ -= workers.size();
  }
  for (const WorkerPtr& worker : workers) (void)exchange(*worker, request_of<&CodecService::finalize>(), kFinalizing);
}

uint64_t CodecWorkers::ended() const {
  const LockGuard guard(mutex_);
  return ended_;
}

std::string CodecWorkers::state() const {
  const LockGuard guard(mutex_);
  std::string text = fmt::format("{} running, {} ended", running_, ended_);
  if (!latest_cause_.empty()) text += fmt::format(", the latest: {}", latest_cause_);
  if (protections_ != kWholeSandbox) text += fmt::format("; without {}", names_of(kWholeSandbox & ~protections_));
  return text;
}

}  // namespace codecfs::filters
