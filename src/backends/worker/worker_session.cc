#include "backends/worker/worker_session.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "backends/api/newer_format.h"
#include "backends/api/references.h"
#include "backends/worker/calls.h"
#include "backends/worker/started_ahead.h"
#include "base/fd_passing.h"
#include "base/log.h"
#include "base/progress_reporter.h"
#include "base/terminal_text.h"
#include "filters/plugins/plugins.h"

namespace codecfs::worker {
namespace {

constexpr size_t kLongestMessage = 8192;
constexpr size_t kMaxAbandoned = 32;  // connections: each has a thread in the process

// Of the first process; the others have the same. None: there was none so far.
std::atomic<int64_t> protections = -1;

void note_protections(SandboxParts parts) {
  int64_t none = -1;
  if (!protections.compare_exchange_strong(none, parts) || parts == kWholeFileSandbox) return;
  const bool has_no_limit =
      (parts & static_cast<uint32_t>(SandboxPart::file_calls)) == 0 && reference_rules().follow == Follow::beneath;
  log::warning("{}{}", describe_protections().text, has_no_limit ? "; -o follow=beneath has no effect" : "");
}

}  // namespace

SourceProtections describe_protections() {
  const int64_t parts = protections;
  if (parts < 0) return {};
  const auto active = static_cast<SandboxParts>(parts);
  const std::string lacking = names_of(kWholeFileSandbox & ~active);
  if (active == kWholeFileSandbox) return {"libhdf5 runs in processes with " + names_of(active), true};
  return {fmt::format("libhdf5 runs in processes without {}, which this system does not allow; with {}", lacking,
                      names_of(active)),
          false};
}

Result<std::shared_ptr<WorkerSession>> WorkerSession::start(const Inheritance& inheritance, FileBroker& broker,
                                                            OnDamage on_damage) {
  std::shared_ptr<WorkerSession> session(new WorkerSession(broker, std::move(on_damage)));
  CODECFS_ASSIGN(session->process_, StartedAhead::instance().take(inheritance.working_directory));
  const int control = session->process_.control.get();
  while (!session->has_ended() && !session->is_in_sandbox_) {
    pollfd event{control, POLLIN, 0};
    (void)::poll(&event, 1, -1);
  }
  if (inheritance.object) {
    CODECFS_ASSIGN(const SharedMirror::Descriptors mirror, inheritance.object->mirror().for_reader());
    CODECFS_ASSIGN(const UniqueFd slots, make_fetch_slots());
    session->object_ = inheritance.object;
    session->slots_ = map_fetch_slots(slots.get());
    if (!session->slots_) return fail_errno(errno, "cannot map shared memory");
    const std::array fds{inheritance.shared, inheritance.journal, mirror.content.get(), mirror.presence.get(),
                         slots.get()};
    (void)send_note(control, fds, Note::file);
  } else {
    (void)send_note(control, std::array{inheritance.shared, inheritance.journal}, Note::file);
  }
  return session;
}

WorkerSession::~WorkerSession() { await_end(true); }

Result<std::unique_ptr<WorkerSession::Connection>> WorkerSession::connect() {
  const LockGuard lock(mutex_);
  if (ended_) return fail(EPIPE, "the process has ended");
  take_late_answers();
  if (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  CODECFS_ASSIGN(auto made, Channel::make());
  auto& [channel, other] = made;
  // The process counts its connections, too.
  auto connection = std::make_unique<Connection>(std::move(channel), ++connections_);
  if (!send_note(process_.control.get(), std::array{other.socket.get(), other.memory.get()}, Note::channel))
    return fail(EPIPE, "the process has ended");
  return connection;
}

void WorkerSession::give_back(std::unique_ptr<Connection> connection) {
  const LockGuard lock(mutex_);
  idle_.push_back(std::move(connection));
}

bool WorkerSession::abandon(std::unique_ptr<Connection>& connection) {
  const LockGuard lock(mutex_);
  if (abandoned_.size() >= kMaxAbandoned) return false;
  abandoned_.push_back(std::move(connection));
  return true;
}

bool WorkerSession::is_unused() {
  const LockGuard lock(mutex_);
  return idle_.size() + abandoned_.size() == connections_;
}

void WorkerSession::take_late_answers() {
  for (auto& connection : abandoned_) {
    pollfd event{connection->channel.socket(), POLLIN, 0};
    if (::poll(&event, 1, 0) <= 0) continue;
    if (connection->channel.receive()) idle_.push_back(std::move(connection));
    connection.reset();
  }
  std::erase(abandoned_, nullptr);
}

void WorkerSession::answer_file_calls() {
  if (!file_calls_) return;
  constexpr int kMax = 64;  // a hostile process may never stop asking
  for (int i = 0; i < kMax; ++i) {
    const auto call = file_calls_->receive();
    if (!call) return;
    file_calls_->answer(*call, broker_.execute(*file_calls_, *call));
  }
}

std::string WorkerSession::take_refusal(Channel& channel) {
  const CallState* state = channel.state();
  return file_calls_ && state != nullptr ? broker_.take_refusal(state->thread) : std::string();
}

bool WorkerSession::has_ended() {
  answer_file_calls();
  const LockGuard lock(control_mutex_);
  for (pollfd event{process_.control.get(), POLLIN, 0}; !ended_ && ::poll(&event, 1, 0) > 0;) {
    Datagram message = receive_datagram(process_.control.get(), kLongestMessage);
    if (!message.bytes.empty()) {
      handle(message.bytes, std::move(message.fds));
      continue;
    }
    process_.await_end();
    written_.clear();
    ProgressReporter::forget_remote(this);
    ended_ = true;
  }
  return ended_;
}

bool WorkerSession::wait(const Channel& channel, int milliseconds) {
  std::array<pollfd, 3> events{
      {{channel.socket(), POLLIN, 0}, {process_.control.get(), POLLIN, 0}, {listener(), POLLIN, 0}}};
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready =
        ::poll(events.data(), events.size(), milliseconds < 0 ? -1 : static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    if ((events[2].revents & (POLLHUP | POLLERR)) != 0) events[2].fd = -1;  // the process ends
    const bool ended = (events[1].revents | events[2].revents) != 0 && has_ended();
    if (ended || events[0].revents != 0) return true;
    if (milliseconds >= 0 && Clock::now() >= end) return false;
  }
}

/// The process may ask for anything: what is not in the file is an error of its own.
void WorkerSession::fetch(const FetchRequest& request) {
  if (!object_ || request.slot >= slots_->slots.size()) return;
  const auto slot = static_cast<uint32_t>(request.slot);
  if (request.range.size > FetchedMirror::kMax)
    return answer_fetch(*slots_, slot, fail(EINVAL, "{} bytes are too many", request.range.size));
  object_->fetch(request.range, [slots = slots_, slot](const Result<>& result) { answer_fetch(*slots, slot, result); });
}

/// The process waits, so its socket has room for all that is sent here. The search takes some seconds at most.
void WorkerSession::send_plugins() {
  if (std::exchange(has_plugins_, true)) return;
  constexpr size_t kMax = 128'000;  // bytes
  size_t sent = 0;
  for (const filters::AcceptedPlugin& plugin : filters::accepted_plugins()) {
    const std::string note = note_of(Note::plugin, plugin.path, plugin.description);
    sent += note.size();
    if (note.size() > kLongestPlugin || sent > kMax) {
      log::warning("{} is not used by libhdf5: there are too many plugins", plugin.description.path);
      continue;
    }
    (void)send_datagram(process_.control.get(), note);
  }
  (void)send_note(process_.control.get(), {}, Note::complete);
}

/// The process is not trusted: a note that is none is ignored.
void WorkerSession::handle(const std::string& message, std::vector<UniqueFd> fds) {
  rpc::Decoder in(message);
  const auto read = [&](auto&... values) {
    (in.get(values), ...);
    return in.is_complete();
  };
  SandboxParts parts = 0;
  log::Level level{};
  FetchRequest request;
  uint64_t number = 0;
  std::string_view text;
  switch (const auto note = in.get<Note>()) {
    case Note::started:
      if (is_in_sandbox_ || !read(parts)) return;
      note_protections(parts);
      if (fds.size() == 3)
        file_calls_ =
            std::make_unique<FileCalls>(std::move(fds[0]), FileCallEnds{std::move(fds[1]), std::move(fds[2])});
      is_in_sandbox_ = true;
      return;
    case Note::log:
      if (read(level, text)) log::write(level, printable(text));
      return;
    case Note::plugins: return send_plugins();
    case Note::began:
      if (read(number) && !fds.empty() && broker_.is_source(fds[0])) {
        auto written = std::make_unique<WrittenSource>(fds[0].get());
        if (fds.size() > 1) written->has_log(std::move(fds[1]));
        written_[number] = std::move(written);
      }
      return;
    case Note::ended:
      if (read(number)) written_.erase(number);
      return;
    case Note::fetch:
      if (read(request)) fetch(request);
      return;
    case Note::progress:
      if (read(number, text)) ProgressReporter::show_remote(this, number, printable(text));
      return;
    case Note::damage:
    case Note::newer:
      if (read(number, text)) {
        const Error report{note == Note::damage ? EIO : kNewerFormat, printable(text)};
        reported_ = on_damage_(number, report) ? Damage::unknown : Damage::known;
      }
      return;
    default: return;
  }
}

void WorkerSession::await_end(bool kill) {
  if (!process_.control) return;  // it was not started
  if (kill) process_.end();
  std::array<pollfd, 2> events{{{process_.control.get(), POLLIN, 0}, {listener(), POLLIN, 0}}};
  while (!has_ended()) {
    (void)::poll(events.data(), events.size(), -1);
    if ((events[1].revents & (POLLHUP | POLLERR)) != 0) events[1].fd = -1;
  }
}

}  // namespace codecfs::worker
