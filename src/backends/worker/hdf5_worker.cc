// Serves the calls of the daemon: one thread per Channel. The main thread waits for new ones, and for the end of the
// daemon.

#include "backends/worker/hdf5_worker.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/api/newer_format.h"
#include "backends/api/written_sources.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/source/isolated_source.h"
#include "backends/hdf5/wal/log_directories.h"
#include "backends/worker/calls.h"
#include "backends/worker/fetch_slots.h"
#include "backends/worker/library_damage.h"
#include "base/fd_passing.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/progress_reporter.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "filters/plugins/plugins.h"
#include "model/limits.h"

namespace codecfs::worker {
namespace {

constexpr uint64_t kMemory = uint64_t{2} << 30;           // bytes, beside chunks
constexpr uint64_t kBytesPerSecond = uint64_t{20} << 20;  // lower bound for libhdf5's throughput
constexpr unsigned kSeconds = 2;
constexpr unsigned kMaxSeconds = 60;
constexpr unsigned kMaxFiles = 65'536;  // a virtual dataset may have thousands of sources
static_assert(kLongestPlugin > PATH_MAX);

constexpr size_t kLongestText = 4000;  // bytes

int control_socket = -1;

template <class... Values>
bool tell(Note note, const Values&... values) {
  return send_note(control_socket, {}, note, values...);
}

/// Tells the daemon which files are being written.
class Forwarder final : public WritingObserver {
 public:
  void began(uint64_t id, int source, int log) override {
    const std::array fds{source, log};
    (void)send_note(control_socket, std::span(fds).first(log < 0 ? 1 : 2), Note::began, id);
  }
  void ended(uint64_t id) override { (void)tell(Note::ended, id); }
};

void forward_log(log::Level level, std::string_view text) {
  (void)tell(Note::log, level, text.substr(0, kLongestText));
}

void forward_progress(uint64_t id, const std::string& line) {
  (void)tell(Note::progress, id, std::string_view(line).substr(0, kLongestText));
}

/// The plugins that the daemon has accepted. It is asked for them when one is needed: this process searches nothing,
/// and loads no library that could not be loaded elsewhere.
class AcceptedPlugins {
 public:
  std::vector<filters::AcceptedPlugin> ask() {
    if (!tell(Note::plugins)) return {};
    UniqueLock lock(mutex_);
    while (!is_complete_) arrived_.wait(lock);
    return found_;
  }
  void add(rpc::Decoder& in) {
    filters::AcceptedPlugin plugin;
    in.get(plugin.path);
    in.get(plugin.description);
    const LockGuard lock(mutex_);
    if (in.is_complete()) found_.push_back(std::move(plugin));
  }
  void complete() {
    const LockGuard lock(mutex_);
    is_complete_ = true;
    arrived_.notify_all();
  }

 private:
  Mutex mutex_;
  ConditionVariable arrived_;
  std::vector<filters::AcceptedPlugin> found_ CODECFS_GUARDED_BY(mutex_);
  bool is_complete_ CODECFS_GUARDED_BY(mutex_) = false;
};

class Work final : public WorkerService {
 public:
  explicit Work(hdf5::IsolatedState state) : state_(std::move(state)) {}

  void answer(Call call, rpc::Decoder& in, rpc::Encoder& out, CallState* state) {
    const bool is_known = Calls::visit(static_cast<uint32_t>(call), [&]<class Row>() {
      if constexpr (std::is_same_v<rpc::ClassOf<Row::function>, WorkerService>)
        rpc::serve<Row::function>(in, out, *this);
      else if (!source_)
        out.put(Result<>(fail(EIO, "the file is not open")));
      else if (!Row::kind.is_edit || !source_->begin_edit(in.get<uint64_t>()))
        serve_source<Row::function>(in, out, state);
      else
        answer_made_edit<rpc::ValueOf<Row::function>>(in, out);
    });
    if (!is_known) out.put(Result<>(fail(EPROTO, "there is no such call")));
  }
  /// The limit of processor time, for each object and for each chunk.
  [[nodiscard]] unsigned seconds(const CallKind& kind) const { return kind.takes_long ? kMaxSeconds : seconds_.load(); }
  // After open().
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_known_damage(uint64_t address) const { return damaged_.contains(address); }
  [[nodiscard]] bool is_newer() const { return is_newer_; }
  /// Tells the daemon of what libhdf5 cannot read.
  void forward(const DamageReports& reports) const {
    std::optional<std::string> newer;
    const bool is_about_version = reports.reason().contains("version");
    if (source_ && reports.address() != 0 && is_about_version) newer = source_->newer_form(reports.address());
    const std::string text = newer.value_or(reports.reason()).substr(0, kLongestText);
    (void)tell(newer ? Note::newer : Note::damage, reports.address(), text);
  }

  Result<Opened> open(const OpenRequest& request) override {
    if (source_) return fail(EPROTO, "it is open");
    path_ = request.path;
    state_.latest = request.latest;
    for (const auto& [address, error] : request.damaged) {
      state_.damaged.emplace(address, error);
      damaged_.insert(address);
    }
    hdf5::note_without_logs(request.beside);
    auto opened = hdf5::open_isolated(path_, request.may_write, std::move(state_));
    if (!opened) {
      is_newer_ = opened.error().code == kNewerFormat;
      return pass_on(opened);
    }
    source_ = *std::move(opened);
    const auto size = static_cast<uint64_t>(source_->status().st_size);
    const uint64_t most_metadata = size / 8;
    seconds_ = static_cast<unsigned>(std::min<uint64_t>(kSeconds + most_metadata / kBytesPerSecond, kMaxSeconds));
    return Opened{source_->format(), source_->status(), source_->root(), source_->writable()};
  }

  Result<std::vector<VariableSummary>> summaries(std::span<const ObjectId> variables) override {
    if (!source_) return fail(EIO, "the file is not open");
    std::vector<VariableSummary> all;
    for (const ObjectId variable : variables) {
      std::optional<VariableSummary> quick;
      {
        const DamageReports reports(true);
        quick = source_->quick_summary(variable);
        if (!quick) (void)source_->facts(variable);
        if (hdf5::has_fetch_failure()) return all;  // the caller answers with the failure
        if (reports.any() && reports.address() != 0) end_by_damage(reports);
        if (reports.any()) return fail(EIO, "{}", reports.reason());
      }
      // Not under DamageReports: where only the index of chunks is damaged, the rest of the variable can be read.
      all.push_back(quick ? *std::move(quick) : summarize(*source_, variable));
    }
    return all;
  }

 private:
  template <auto function>
  void serve_source(rpc::Decoder& in, rpc::Encoder& out, CallState* state) {
    Progress progress;
    if (rpc::has_own_arguments<function> && state != nullptr)
      progress.cancelled = [&] {
        state->done = progress.done.load();
        state->total = progress.total.load();
        return state->cancelled != 0;
      };
    rpc::serve<function>(in, out, *source_, progress);
    if (progress.cancelled) (void)progress.cancelled();
  }

  // A change that was made by a process that was killed before it could say so is not made again.
  template <class Value>
  void answer_made_edit(rpc::Decoder& in, rpc::Encoder& out) {
    if constexpr (std::is_same_v<Value, Entry>) {
      const auto group = in.get<ObjectId>();
      out.put(source_->find(group, in.get<std::string_view>()));
    } else {
      out.put(Result<>());
    }
  }

  // The daemon repeats the call without the object.
  [[noreturn]] void end_by_damage(const DamageReports& reports) const {
    forward(reports);
    ::_exit(0);
  }

  std::string path_;
  std::set<uint64_t> damaged_;  // addresses
  bool is_newer_ = false;       // the file could not be opened for that
  hdf5::IsolatedState state_;
  std::unique_ptr<hdf5::IsolatedSource> source_;
  std::atomic<unsigned> seconds_ = kMaxSeconds;  // until the file is open
};

void serve(Work& work, Channel channel, uint32_t number) {
  if (CallState* const state = channel.state()) state->thread = static_cast<uint32_t>(::syscall(SYS_gettid));
  while (const auto request = channel.receive()) {
    CallState* const state = channel.state();  // receiving and sending may have moved it
    const Call call{request->kind};
    const CallKind& kind = kind_of(call);
    begin_step(number, work.seconds(kind), kind.takes_long && state != nullptr ? &state->done : nullptr);
    rpc::Encoder out;
    DamageReports reports(kind.is_metadata);
    try {
      rpc::Decoder in(request->head, request->bulk);
      work.answer(call, in, out, state);
    } catch (const std::bad_alloc&) {
      end_out_of_memory();
    } catch (const std::exception& error) {
      out = {};
      out.put(Result<>(fail(EIO, "{}", error.what())));
    }
    if (hdf5::library_ran_out_of_memory()) end_out_of_memory();
    end_step();
    if (const auto failure = hdf5::take_fetch_failure()) {
      // Not damage. libhdf5 is not used after a failure, and another process may be more lucky.
      out = {};
      out.put(Result<>(fail(failure->code, "{}", failure->reason)));
      (void)channel.send(0, out.head, out.bulk);
      ::_exit(0);
    }
    if (reports.any()) {
      work.forward(reports);
      // libhdf5's memory may be damaged, and so the answer. The daemon repeats the call without the object. If it was
      // without it already, there is no better answer.
      if (reports.address() != 0 && !work.is_known_damage(reports.address())) ::_exit(0);
      // The next process would find the same.
      if (call == call_of<&WorkerService::open> && reports.address() == 0 && !work.is_newer()) {
        out = {};
        out.put(Result<>(fail(EIO, "{} cannot be opened as HDF5: {}", work.path(), reports.reason())));
      }
    }
    if (!channel.send(0, out.head, out.bulk)) return;
    if (reports.any()) ::_exit(0);  // everything that was reported as done is in the log, or held by the daemon
  }
}

std::shared_ptr<hdf5::SharedState> map_shared(int fd) {
  void* at = ::mmap(nullptr, sizeof(hdf5::SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<hdf5::SharedState*>(at), [](hdf5::SharedState*) {}};  // until the process ends
}

// Enters the sandbox, and hands to the daemon what it needs to answer file calls.
bool begin_sandbox(const std::string& directory) {
  if (::chdir(directory.c_str()) != 0) (void)!::chdir("/");
  ::tzset();  // reads its file
  Result<FileCallEnds> ends = FileCallEnds::open();
  FileSandbox sandbox = enter_file_sandbox(kMaxFiles, ends.has_value());
  if (!sandbox.listener) return tell(Note::started, sandbox.parts);
  const std::array fds{sandbox.listener.get(), ends->memory.get(), ends->process.get()};
  return send_note(control_socket, fds, Note::started, sandbox.parts);
}

}  // namespace

void run_hdf5_worker(int control) {
  control_socket = control;
  ::prctl(PR_SET_NAME, "codecfs-hdf5");  // for ps(1)
  hdf5::reset_library_lock();
  static auto& plugins = *new AcceptedPlugins;                    // never destroyed: threads may wait for it
  filters::use_plugins_in_process([] { return plugins.ask(); });  // they may end this process
  ::mallopt(M_ARENA_MAX, 1);  // others take 64 MiB of the limit each, and grow by a page at a time
  // As in the daemon: chunks are allocated repeatedly, when a variable is re-encoded.
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 8 << 20);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit_memory(kMemory + 8 * max_chunk_bytes());
#endif
  log::to_function(forward_log);
  ProgressReporter::forward_to(forward_progress);
  static Forwarder forwarder;
  observe_writing(&forwarder);
  bool is_in_sandbox = false;
  Work* work = nullptr;  // never destroyed
  for (uint32_t channels = 0;;) {
    Datagram order = receive_datagram(control, kLongestPlugin);
    if (order.bytes.empty()) return;
    rpc::Decoder in(order.bytes);
    const auto note = in.get<Note>();
    if (note == Note::start && !std::exchange(is_in_sandbox, true)) {
      if (!begin_sandbox(in.get<std::string>())) return;
    } else if (note == Note::file && (order.fds.size() == 2 || order.fds.size() == 5) && work == nullptr) {
      hdf5::IsolatedState state;
      if (order.fds.size() == 5) {
        auto mirror = SharedMirror::attach({std::move(order.fds[2]), std::move(order.fds[3])});
        auto slots = map_fetch_slots(order.fds[4].get());
        if (!mirror || !slots) return;
        state.fetched = std::make_shared<FetchedMirror>(*std::move(mirror), std::move(slots), control);
      }
      state.shared = map_shared(order.fds[0].get());
      state.journal = std::move(order.fds[1]);
      if (!state.shared || !is_in_sandbox) return;
      work = new Work(std::move(state));
    } else if (note == Note::plugin) {
      plugins.add(in);
    } else if (note == Note::complete) {
      plugins.complete();
    } else if (note == Note::channel && order.fds.size() == 2 && work != nullptr) {
      Channel channel(std::move(order.fds[0]), std::move(order.fds[1]));
      begin_step(++channels, 0);  // the call that waits for this thread learns why it ends
      try {
        std::thread([work, moved = std::move(channel), number = channels]() mutable {
          serve(*work, std::move(moved), number);
        }).detach();
      } catch (const std::system_error&) {
        end_out_of_threads();
      }
      end_step();
    }
  }
}

}  // namespace codecfs::worker
