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
#include <tuple>
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
#include "backends/worker/wire.h"
#include "base/fd_passing.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/progress_reporter.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "filters/plugins/codec_messages.h"
#include "filters/plugins/plugins.h"
#include "model/limits.h"

namespace codecfs::worker {
namespace {

constexpr uint64_t kMemory = uint64_t{2} << 30;           // bytes, beside chunks
constexpr uint64_t kBytesPerSecond = uint64_t{20} << 20;  // lower bound for libhdf5's throughput
constexpr unsigned kSeconds = 2;
constexpr unsigned kMaxSeconds = 60;
constexpr unsigned kMaxFiles = 65'536;  // a virtual dataset may have thousands of sources
constexpr size_t kLongestOrder = kLongestPlugin + 1;
static_assert(kLongestOrder > PATH_MAX);

constexpr size_t kLongestText = 4000;  // bytes

int control_socket = -1;

/// Tells the daemon which files are being written.
class Forwarder final : public WritingObserver {
 public:
  void began(uint64_t id, int source, int log) override {
    const std::array fds{source, log};
    (void)send_datagram(control_socket, with_number('w', id), std::span(fds).first(log < 0 ? 1 : 2));
  }
  void ended(uint64_t id) override { (void)send_datagram(control_socket, with_number('e', id)); }

  static std::string with_number(char letter, uint64_t number) {
    std::string text(1, letter);
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
    return text;
  }
};

void forward_log(log::Level level, std::string_view text) {
  std::string message{'l', static_cast<char>(level)};
  message += text.substr(0, kLongestText);
  (void)send_datagram(control_socket, message);
}

void forward_progress(uint64_t id, const std::string& line) {
  (void)send_datagram(control_socket, Forwarder::with_number('p', id) + line.substr(0, kLongestText));
}

/// The plugins that the daemon has accepted. It is asked for them when one is needed: this process searches nothing,
/// and loads no library that could not be loaded elsewhere.
class AcceptedPlugins {
 public:
  std::vector<filters::AcceptedPlugin> ask() {
    if (!send_datagram(control_socket, "q")) return {};
    UniqueLock lock(mutex_);
    while (!is_complete_) arrived_.wait(lock);
    return found_;
  }
  void add(std::string_view order) {
    filters::MessageReader reader(order);
    filters::AcceptedPlugin plugin;
    plugin.path = reader.text();
    std::string shown = reader.text();
    plugin.description = reader.description();
    plugin.description.path = std::move(shown);
    const LockGuard lock(mutex_);
    if (reader.is_valid()) found_.push_back(std::move(plugin));
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

// How the argument of a call is held while it runs.
template <class T>
struct Held {
  using type = std::remove_cvref_t<T>;
};
template <>
struct Held<std::string_view> {
  using type = std::string;
};
template <class T>
  requires(!std::is_same_v<T, std::byte>)
struct Held<std::span<const T>> {
  using type = std::vector<T>;
};

// Calls that only read metadata. Where libhdf5 reports damage in one, its memory may be damaged, too; H5Dread fails for
// many other reasons.
bool is_metadata(Call call) { return call <= Call::facts || call == Call::layout; }

bool reports_progress(Call call) { return call == Call::set_filters || call == Call::encode_masked_chunks; }

class Work {
 public:
  explicit Work(hdf5::IsolatedState state) : state_(std::move(state)) {}

  void answer(Call call, Decoder& in, Encoder& out, CallState* progress) {
    if (call == Call::open) return open(in, out);
    if (!source_) return out.put(Result<>(fail(EIO, "the file is not open")));
    switch (call) {
      case Call::open: break;
      case Call::list: return run(in, out, &Source::list);
      case Call::unreadable_members: return run(in, out, &Source::unreadable_members);
      case Call::overview: return run(in, out, &Source::overview);
      case Call::find: return run(in, out, &Source::find);
      case Call::group_attributes: return run(in, out, &Source::group_attributes);
      case Call::link_notes: return run(in, out, &Source::link_notes);
      case Call::dimensions: return run(in, out, &Source::dimensions);
      case Call::variable: return run(in, out, &Source::variable);
      case Call::variable_attributes: return run(in, out, &Source::variable_attributes);
      case Call::left_out_attributes: return run(in, out, &Source::left_out_attributes);
      case Call::missing_sources: return run(in, out, &Source::missing_sources);
      case Call::facts: return run(in, out, &Source::facts);
      case Call::locate: return run(in, out, &Source::locate);
      case Call::stored_chunks: return run(in, out, &Source::stored_chunks);
      case Call::fetch_chunk: return run(in, out, &Source::fetch_chunk);
      case Call::read_stored: return run(in, out, &Source::read_stored);
      case Call::stored_bytes: return run(in, out, &Source::stored_bytes);
      case Call::places: return run(in, out, &hdf5::IsolatedSource::places);
      case Call::fetch_encoded: return run(in, out, &hdf5::IsolatedSource::fetch_encoded);
      case Call::layout: return run(in, out, &hdf5::IsolatedSource::layout);
      case Call::summaries: return summaries(in, out);
      case Call::variable_writable: return run(in, out, &Source::variable_writable);
      case Call::write_chunk: return run(in, out, &Source::write_chunk);
      case Call::write_stored: return run(in, out, &Source::write_stored);
      case Call::write_encoded: return run(in, out, &hdf5::IsolatedSource::write_encoded);
      case Call::write_many: return run(in, out, &hdf5::IsolatedSource::write_many);
      case Call::remove_chunk: return run(in, out, &Source::remove_chunk);
      case Call::seal: return run(in, out, &hdf5::IsolatedSource::seal);
      case Call::begin_writing_to: return run(in, out, &Source::begin_writing_to);
      case Call::change_in_bulk: return run(in, out, &Source::change_in_bulk);
      case Call::make_group: return edit(in, out, &Source::make_group);
      case Call::define_dimensions: return edit(in, out, &Source::define_dimensions);
      case Call::make_variable: return edit(in, out, &Source::make_variable);
      case Call::make_link: return edit(in, out, &Source::make_link);
      case Call::restore_link: return edit(in, out, &Source::restore_link);
      case Call::remove: return edit(in, out, &Source::remove);
      case Call::rename: return edit(in, out, &Source::rename);
      case Call::set_attributes: return edit(in, out, &Source::set_attributes);
      case Call::set_dimensions: return edit(in, out, &Source::set_dimensions);
      case Call::set_metadata: return edit(in, out, &Source::set_metadata);
      case Call::resize: return edit(in, out, &Source::resize);
      case Call::set_filters: return set_filters(in, out, progress);
      case Call::encode_masked_chunks: return encode_masked_chunks(in, out, progress);
      case Call::reclaimable_bytes: return out.put(Result<uint64_t>(source_->reclaimable_bytes()));
      case Call::commit: return run(in, out, &Source::commit);
      case Call::commit_at_interval: return run(in, out, &Source::commit_at_interval);
      case Call::relocate_log: return run(in, out, &Source::relocate_log);
      case Call::finish: return run(in, out, &Source::finish);
    }
    out.put(Result<>(fail(EPROTO, "there is no such call")));
  }
  /// Of processor time, for each object and for each chunk.
  [[nodiscard]] unsigned seconds(Call call) const { return call < Call::set_filters ? seconds_.load() : kMaxSeconds; }
  // After open().
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_known_damage(uint64_t address) const { return damaged_.contains(address); }
  [[nodiscard]] bool is_newer() const { return is_newer_; }
  /// Tells the daemon of what libhdf5 cannot read.
  void forward(const DamageReports& reports) const {
    std::optional<std::string> newer;
    const bool is_about_version = reports.reason().contains("version");
    if (source_ && reports.address() != 0 && is_about_version) newer = source_->newer_form(reports.address());
    (void)send_datagram(control_socket, Forwarder::with_number(newer ? 'v' : 'd', reports.address()) +
                                            newer.value_or(reports.reason()).substr(0, kLongestText));
  }

 private:
  void open(Decoder& in, Encoder& out) {
    bool may_write = false;
    std::vector<uint64_t> addresses;
    std::vector<uint64_t> codes;
    std::vector<std::string> reasons;
    std::array<uint64_t, 4> beside{};
    in.get(path_);
    for (uint64_t& number : beside) in.get(number);
    in.get(may_write);
    in.get(state_.latest);
    in.get(addresses);
    in.get(codes);
    in.get(reasons);
    if (in.failed() || addresses.size() != codes.size() || addresses.size() != reasons.size() || source_)
      return out.put(Result<>(fail(EPROTO, "open")));
    for (size_t i = 0; i < addresses.size(); ++i)
      state_.damaged.emplace(addresses[i], Error{static_cast<int>(codes[i]), reasons[i]});
    damaged_ = {addresses.begin(), addresses.end()};
    hdf5::note_without_logs({beside[0], beside[1], static_cast<int64_t>(beside[2]), static_cast<int64_t>(beside[3])});
    auto opened = hdf5::open_isolated(path_, may_write, std::move(state_));
    if (!opened) {
      is_newer_ = opened.error().code == kNewerFormat;
      return out.put(Result<>(pass_on(opened)));
    }
    source_ = *std::move(opened);
    const auto size = static_cast<uint64_t>(source_->status().st_size);
    const uint64_t most_metadata = size / 8;
    seconds_ = static_cast<unsigned>(std::min<uint64_t>(kSeconds + most_metadata / kBytesPerSecond, kMaxSeconds));
    out.put(Result<>());
    out.put(source_->format());
    out.put(source_->status());
    out.put(source_->root());
    out.put(source_->writable());
  }

  template <class Class, class R, class... A>
  void run(Decoder& in, Encoder& out, R (Class::*method)(A...)) {
    std::tuple<typename Held<std::remove_cvref_t<A>>::type...> arguments;
    std::apply([&](auto&... argument) { (in.get(argument), ...); }, arguments);
    if (in.failed()) return out.put(Result<>(fail(EPROTO, "wrong arguments")));
    out.put(std::apply([&](auto&... argument) { return (source_.get()->*method)(argument...); }, arguments));
  }

  // A change that was made by a process that was killed before it could say so is not made again.
  template <class Class, class R, class... A>
  void edit(Decoder& in, Encoder& out, R (Class::*method)(A...)) {
    uint64_t number = 0;
    in.get(number);
    if (!source_->begin_edit(number)) return run(in, out, method);
    if constexpr (std::is_same_v<R, Result<Entry>>) {
      ObjectId group = 0;
      std::string name;
      in.get(group);
      in.get(name);
      out.put(source_->find(group, name));
    } else {
      out.put(Result<>());
    }
  }

  void summaries(Decoder& in, Encoder& out) {
    std::vector<ObjectId> variables;
    in.get(variables);
    if (in.failed()) return out.put(Result<>(fail(EPROTO, "wrong arguments")));
    std::vector<VariableSummary> all;
    for (const ObjectId variable : variables) {
      std::optional<VariableSummary> quick;
      {
        const DamageReports reports(true);
        quick = source_->quick_summary(variable);
        if (!quick) (void)source_->facts(variable);
        if (hdf5::has_fetch_failure()) return;  // the caller answers with it
        if (reports.any() && reports.address() != 0) end_by_damage(reports);
        if (reports.any()) return out.put(Result<>(fail(EIO, "{}", reports.reason())));
      }
      // Not under DamageReports: where only the index of chunks is damaged, the rest of the variable can be read.
      all.push_back(quick ? *std::move(quick) : summarize(*source_, variable));
    }
    out.put(Result<std::vector<VariableSummary>>(std::move(all)));
  }

  // The daemon repeats the call without the object.
  [[noreturn]] void end_by_damage(const DamageReports& reports) const {
    forward(reports);
    ::_exit(0);
  }

  void set_filters(Decoder& in, Encoder& out, CallState* state) {
    ObjectId variable = 0;
    std::vector<FilterStage> chain;
    in.get(variable);
    in.get(chain);
    run_with_progress(in, out, state,
                      [&](Progress& progress) { return source_->set_filters(variable, chain, progress); });
  }

  void encode_masked_chunks(Decoder& in, Encoder& out, CallState* state) {
    ObjectId variable = 0;
    in.get(variable);
    run_with_progress(in, out, state,
                      [&](Progress& progress) { return source_->encode_masked_chunks(variable, progress); });
  }

  template <class Change>
  static void run_with_progress(const Decoder& in, Encoder& out, CallState* state, const Change& change) {
    if (in.failed() || state == nullptr) return out.put(Result<>(fail(EPROTO, "wrong arguments")));
    Progress progress;
    progress.cancelled = [&] {
      state->done = progress.done.load();
      state->total = progress.total.load();
      return state->cancelled != 0;
    };
    out.put(change(progress));
    (void)progress.cancelled();
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
    const auto call = static_cast<Call>(request->kind);
    begin_step(number, work.seconds(call), reports_progress(call) && state != nullptr ? &state->done : nullptr);
    Encoder out;
    DamageReports reports(is_metadata(call));
    try {
      Decoder in(request->head, request->bulk);
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
      if (call == Call::open && reports.address() == 0 && !work.is_newer()) {  // the next process would find the same
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
  std::string message(1, 'n');
  message.append(reinterpret_cast<const char*>(&sandbox.parts), sizeof sandbox.parts);
  if (!sandbox.listener) return send_datagram(control_socket, message);
  return send_datagram(control_socket, message,
                       std::array{sandbox.listener.get(), ends->memory.get(), ends->process.get()});
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
    Datagram order = receive_datagram(control, kLongestOrder);
    if (order.bytes.empty()) return;
    if (order.bytes[0] == 's' && !std::exchange(is_in_sandbox, true)) {
      if (!begin_sandbox(order.bytes.substr(1))) return;
    } else if (order.bytes[0] == 'i' && (order.fds.size() == 2 || order.fds.size() == 5) && work == nullptr) {
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
    } else if (order.bytes[0] == 'p') {
      plugins.add(std::string_view(order.bytes).substr(1));
    } else if (order.bytes[0] == 'e') {
      plugins.complete();
    } else if (order.bytes[0] == 'c' && order.fds.size() == 2 && work != nullptr) {
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
