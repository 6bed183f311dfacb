#include "backends/worker/worker_client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "backends/api/source.h"
#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/wal/log_directories.h"
#include "backends/worker/started_ahead.h"
#include "backends/worker/worker_session.h"
#include "base/file_io.h"
#include "base/interruption.h"
#include "base/log.h"
#include "base/rpc/attempts.h"
#include "filters/plugins/plugins.h"

namespace codecfs::worker {
namespace {

constexpr unsigned kMaxDefects = 1000;       // of one file; then no new process is started
constexpr unsigned kMaxDefectsOfCall = 256;  // objects that one call finds damaged
constexpr unsigned kMaxKnownDamage = 8;      // reports of an object that is refused already, of one call
constexpr size_t kMaxRefused = 4096;         // calls

std::atomic<unsigned> clients = 0;

UniqueFd make_memory(const char* name, uint64_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (fd && ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) fd.reset();
  return fd;
}

/// Beside the plugins, what the dynamic linker reads.
std::vector<std::string> libraries() {
  std::vector<std::string> all{"/lib",       "/lib32",     "/lib64",         "/usr/lib",
                               "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"};
  if (!filters::plugins_are_refused())
    for (const std::string& directory : filters::searched_directories()) {
      all.push_back(directory);
      std::error_code error;
      if (const auto real = std::filesystem::canonical(directory, error); !error) all.push_back(real.string());
    }
  return all;
}

std::unexpected<Error> fail_for_lack_of_threads(const std::string& path) {
  return fail(EAGAIN,
              "{}: the process that runs libhdf5 cannot create a thread: the limit of processes (ulimit -u) or of the "
              "control group (pids.max) is reached",
              path);
}

rpc::End end_in_library(const WorkerSession& session) {
  return session.trace().end == WorkerTrace::kTooSlow ? rpc::End::late : rpc::End::crashed;
}

std::string key_of(Call call, const rpc::Encoder& request) {
  std::string key(1, static_cast<char>(call));
  return key + request.head;
}

}  // namespace

WorkerClient::WorkerClient(std::string path, bool may_write, bool latest, HeldWrites& held)
    : path_(std::move(path)),
      working_directory_([] {
        std::error_code error;
        return std::filesystem::current_path(error).string();
      }()),
      may_write_(may_write),
      latest_(latest),
      held_(held) {
  ++clients;
}

WorkerClient::WorkerClient(std::shared_ptr<remote::ObjectFile> object, HeldWrites& held)
    : path_(object->name()),
      working_directory_("/"),
      may_write_(false),
      latest_(false),
      held_(held),
      object_(std::move(object)) {
  ++clients;
}

WorkerClient::~WorkerClient() {
  if (--clients == 0) StartedAhead::instance().end_unused(std::chrono::seconds(0));
}

namespace {

Result<> copy_content(const UniqueFd& from, const UniqueFd& to) {
  std::array<std::byte, 65536> buffer{};
  const File source{.fd = UniqueFd(::dup(from.get())), .path = "numbers of objects"};
  for (uint64_t at = 0;;) {
    CODECFS_ASSIGN(const size_t count, read_at(source, at, buffer));
    if (count == 0) return {};
    if (::pwrite(to.get(), buffer.data(), count, static_cast<off_t>(at)) != static_cast<ssize_t>(count))
      return fail_errno(errno, "no memory for the numbers of objects");
    at += count;
  }
}

}  // namespace

Result<> WorkerClient::open(const WorkerClient* twin) {
  if (object_) {
    CODECFS_ASSIGN(SharedMirror::Descriptors mirror, object_->mirror().for_reader());
    fd_ = std::move(mirror.content);
  } else {
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!fd_) return fail_errno(errno, "{}", path_);
  ReferenceRules references = reference_rules();
  if (object_) references.follow = Follow::none;
  broker_ = std::make_unique<FileBroker>(FileRules{.source = path_,
                                                   .may_write = may_write_,
                                                   .working_directory = working_directory_,
                                                   .references = references,
                                                   .libraries = libraries()},
                                         UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)));
  shared_fd_ = make_memory("codecfs-state", sizeof(hdf5::SharedState));
  journal_ = make_memory("codecfs-journal", 0);
  void* at = MAP_FAILED;
  if (shared_fd_ && journal_)
    at = ::mmap(nullptr, sizeof(hdf5::SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd_.get(), 0);
  if (at == MAP_FAILED) return fail_errno(errno, "cannot create shared memory");
  if (twin != nullptr) CODECFS_TRY(copy_content(twin->journal_, journal_));
  shared_ = {static_cast<hdf5::SharedState*>(at),
             [](hdf5::SharedState* state) { ::munmap(state, sizeof(hdf5::SharedState)); }};
  const auto session = current();
  return session ? Result<>() : Result<>(std::unexpected(session.error()));
}

Result<WorkerClient::SessionPtr> WorkerClient::current() {
  if (SessionPtr running = running_session()) return running;
  const LockGuard one(starting_);
  if (SessionPtr running = running_session()) return running;
  SessionPtr ended;  // handles what its process has said last, which needs the mutex
  {
    const LockGuard lock(mutex_);
    ended = std::move(session_);
    session_.reset();
    if (is_final_)
      return fail(EIO, "{}: the process that writes it has ended{}{}; what it has not committed is lost", path_,
                  last_end_.empty() ? "" : ": libhdf5 ", last_end_);
    if (defects_ >= kMaxDefects)
      return fail(EIO, "{}: libhdf5 has failed {} times because of it; it is not tried again", path_, defects_);
  }
  ended.reset();
  return start();
}

// Null if there is none, or if its end was noticed: a call notices it otherwise.
WorkerClient::SessionPtr WorkerClient::running_session() {
  const LockGuard lock(mutex_);
  return session_ && !session_->was_seen_to_end() ? session_ : nullptr;
}

Result<WorkerClient::SessionPtr> WorkerClient::start() {
  rpc::Attempts attempts;
  for (unsigned objects = 0;;) {
    // What was read before may be of a state that the next process does not find.
    for (auto& generation : shared_->generations) ++generation;
    const WorkerSession::Inheritance inheritance{shared_fd_.get(), journal_.get(), working_directory_, object_};
    CODECFS_ASSIGN(SessionPtr session,
                   WorkerSession::start(inheritance, *broker_, [this](uint64_t address, const Error& report) {
                     return learn_report(address, report);
                   }));
    const Result<> opened = open_in(*session);
    if (opened) {
      {
        const LockGuard lock(mutex_);
        ++started_;
        session_ = session;
      }
      StartedAhead::instance().start_next(working_directory_);
      return session;
    }
    if (opened.error().code != EPIPE) return std::unexpected(opened.error());
    session->await_end(true);
    if (session->trace().end == WorkerTrace::kOutOfThreads) return fail_for_lack_of_threads(path_);
    const std::string cause = session->cause_of_end();
    if (const auto damage = session->reported(); damage != WorkerSession::Damage::none) {
      const bool is_new = damage == WorkerSession::Damage::unknown;
      if (++objects > (is_new ? kMaxDefectsOfCall : 1))
        return fail(EIO, "libhdf5 finds damage when it opens {}", path_);
    } else if (cause.empty()) {
      if (!attempts.again(rpc::End::killed))
        return fail(EIO, "{}: the process that opens it was killed {} times", path_, rpc::Attempts::kMaxKills);
    } else if (session->ended_in_library()) {
      if (!attempts.again(end_in_library(*session))) return fail(EIO, "libhdf5 {} when it opens {}", cause, path_);
    } else if (!learn(session->trace().address, cause, call_of<&WorkerService::open>) &&
               !attempts.again(rpc::End::crashed)) {
      return fail(EIO, "libhdf5 {} when it opens {}; the file is damaged", cause, path_);
    }
  }
}

namespace {

/// EPIPE means that the process has ended.
template <class R>
Result<R> ask(WorkerSession& session, Channel& channel, Call call, const rpc::Encoder& request) {
  CODECFS_TRY(channel.send(static_cast<uint32_t>(call), request.head, request.bulk));
  (void)session.wait(channel, -1);
  CODECFS_ASSIGN(const Channel::Message answer, channel.receive());
  Result<R> done;
  rpc::get_answer(rpc::Decoder(answer.head, answer.bulk), done);
  if (!done && done.error().code == EPIPE) done.error().code = EIO;
  return done;
}

}  // namespace

// EPIPE if the process has ended.
Result<> WorkerClient::open_in(WorkerSession& session) {
  CODECFS_ASSIGN(auto connection, session.connect());
  // The file may have been moved meanwhile.
  std::error_code error;
  const auto present = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd_.get()), error);
  OpenRequest request{.path = error || object_ || opened_.format.empty() ? path_ : present.string(),
                      .beside = {},
                      .may_write = may_write_,
                      .latest = latest_,
                      .damaged = {}};
  if (!object_) request.beside = hdf5::state_without_logs(request.path.substr(0, request.path.rfind('/') + 1));
  {
    const LockGuard lock(mutex_);
    request.damaged.assign(damaged_.begin(), damaged_.end());
  }
  rpc::Encoder arguments;
  rpc::put_arguments<&WorkerService::open>(arguments, request);
  CODECFS_ASSIGN(Opened opened, ask<Opened>(session, connection->channel, call_of<&WorkerService::open>, arguments));
  if (object_) {  // what was read of it changes the time of the mirror
    opened.status.st_mode = S_IFREG | 0444;
    opened.status.st_mtim = opened.status.st_ctim =
        opened.status.st_atim = {.tv_sec = object_->modified(), .tv_nsec = 0};
  }
  if (opened_.format.empty()) {
    opened_ = std::move(opened);
  } else if (opened.status.st_ino != opened_.status.st_ino || opened.status.st_dev != opened_.status.st_dev) {
    return fail(ESTALE, "{}: was replaced by another file; mount it again", path_);
  }
  if (!writing_) {
    session.give_back(std::move(connection));
    return {};
  }
  CODECFS_TRY(continue_writing(session, connection->channel));
  session.give_back(std::move(connection));
  return {};
}

// Recovers what the previous process has sealed in the log, and makes the changes again that it had not sealed.
Result<> WorkerClient::continue_writing(WorkerSession& session, Channel& channel) {
  rpc::Encoder begin;
  rpc::put_arguments<&Source::begin_writing_to>(begin, ObjectId{0});
  if (const auto recovered = ask<void>(session, channel, call_of<&Source::begin_writing_to>, begin); !recovered) {
    if (recovered.error().code == EPIPE || !held_.is_empty()) return recovered;
    log::error("{}", recovered.error().reason);  // the next change tries again, and reports why it fails
    return {};
  }
  return held_.make_again([&](const HeldWrites::Write& write) -> Result<> {
    rpc::Encoder request;
    write.put_in(request);
    Result<> made = ask<void>(session, channel, write.call, request);
    const int code = made ? 0 : made.error().code;
    return code == ENOENT || code == ESTALE ? Result<>() : made;  // the variable was removed meanwhile
  });
}

bool WorkerClient::learn(uint64_t address, const std::string& cause, Call call) {
  const uint64_t object = hdf5::object_of(address);
  Error error{EIO,
              fmt::format("libhdf5 {} {} the object at {} of {}; the file is damaged", cause,
                          object == address ? kind_of(call).action : "when it reads the attributes of", object, path_)};
  const LockGuard lock(mutex_);
  return remember(address, cause, std::move(error));
}

bool WorkerClient::learn_report(uint64_t address, const Error& report) {
  if (report.code == EIO || address == 0)
    return learn(address, "finds damage (" + report.reason + ")", call_of<&Source::facts>);
  const LockGuard lock(mutex_);
  return remember(address, "does not know a version", report);
}

bool WorkerClient::remember(uint64_t address, const std::string& cause, Error error) {
  ++defects_;
  last_end_ = cause;
  if (address == 0) return false;
  const auto [known, is_new] = damaged_.emplace(address, std::move(error));
  if (is_new)
    log::warning("{}", known->second.code == EIO ? known->second.reason
                                                 : fmt::format("{}: the object at {}: {}", path_,
                                                               hdf5::object_of(address), known->second.reason));
  return is_new;
}

void WorkerClient::end_unused(std::chrono::seconds unused_for) {
  if (std::chrono::steady_clock::now() - latest_call_.load() < unused_for) return;
  SessionPtr unused;  // ends the process when its calls have returned
  const LockGuard lock(mutex_);
  unused = std::move(session_);
  session_.reset();
}

void WorkerClient::forget_refusals() {
  const LockGuard lock(mutex_);
  refused_.clear();
}

WorkerClient::State WorkerClient::state() {
  const SessionPtr running = running_session();
  const bool is_running = running && !running->has_ended();  // calls learn(), so not under the mutex
  const LockGuard lock(mutex_);
  return {is_running ? running->trace().pid.load() : 0, started_, last_end_};
}

Result<> WorkerClient::transact(Call call, const rpc::Encoder& request, Progress* progress,
                                const std::function<void(rpc::Decoder)>& use) {
  const std::string key = key_of(call, request);
  latest_call_ = std::chrono::steady_clock::now();
  rpc::Attempts attempts;
  for (unsigned objects = 0, reports = 0;;) {
    {
      const LockGuard lock(mutex_);
      if (const auto known = refused_.find(key); known != refused_.end()) return std::unexpected(known->second);
    }
    if (object_ && Interruption::is_requested()) return Interruption::error();
    CODECFS_ASSIGN(const SessionPtr session, current());
    auto connection = session->connect();
    if (!connection && connection.error().code != EPIPE) return pass_on(connection);
    Result<> done = connection ? Result<>() : Result<>(pass_on(connection));
    const uint32_t number = connection ? (*connection)->number : 0;
    if (done) {
      Channel& channel = (*connection)->channel;
      if (CallState* const fresh = channel.state(); progress != nullptr && fresh != nullptr) {
        fresh->done = 0;
        fresh->total = 0;
        fresh->cancelled = 0;
      }
      (void)session->take_refusal(channel);
      done = channel.send(static_cast<uint32_t>(call), request.head, request.bulk);
      if (!done && done.error().code != EPIPE) {
        session->give_back(*std::move(connection));
        return done;
      }
      CallState* const state = channel.state();  // sending may have moved it
      const bool has_progress = progress != nullptr && state != nullptr;
      // Nothing is changed in an object store, so it does not matter whether the process makes the call.
      const bool can_be_interrupted = object_ != nullptr && Interruption::current() != nullptr;
      const int interval = has_progress || can_be_interrupted ? 100 : -1;  // milliseconds
      while (done && !session->wait(channel, interval)) {
        if (can_be_interrupted && Interruption::is_requested() && session->abandon(*connection)) {
          // It would hold libhdf5's lock for as long as it waits. The next process finds all that has arrived.
          if (session->is_unused()) session->await_end(true);
          return Interruption::error();
        }
        if (!has_progress) continue;
        progress->done = state->done.load();
        progress->total = state->total.load();
        if (progress->cancelled && progress->cancelled()) state->cancelled = 1;
      }
      if (done) {
        auto answer = channel.receive();
        if (answer) {
          if (const CallState* const last = channel.state(); progress != nullptr && last != nullptr) {
            progress->done = last->done.load();
            progress->total = last->total.load();
          }
          const std::string refusal = session->take_refusal(channel);
          // libhdf5 reads fill values in place of a missing file.
          const bool is_refused = !refusal.empty() && kind_of(call).reads_chunk;
          if (!is_refused) use(rpc::Decoder(answer->head, answer->bulk));
          session->give_back(*std::move(connection));
          return is_refused ? Result<>(fail(EACCES, "{}", refusal)) : Result<>();
        }
        done = pass_on(answer);
      }
    }
    // Otherwise the process has ended, or sends what is no message.
    session->await_end(done.error().code != EPIPE && done.error().code != ECONNRESET);
    if (session->trace().end == WorkerTrace::kOutOfThreads && session->trace().culprit == number)
      return fail_for_lack_of_threads(path_);
    std::string cause = session->cause_of_end();
    bool is_new = false;
    if (const auto damage = session->reported(); damage != WorkerSession::Damage::none) {
      // Perhaps in another thread's call.
      is_new = damage == WorkerSession::Damage::unknown || ++reports < kMaxKnownDamage;
      cause = "finds damage";
    } else if (cause.empty() || number == 0 || session->trace().culprit != number) {
      if (attempts.again(rpc::End::killed)) continue;
      return fail(EIO, "{}: the process that reads it was killed {} times", path_, rpc::Attempts::kMaxKills);
    } else if (!session->ended_in_library()) {
      is_new = learn(session->trace().address, cause, call);
    }
    if (is_new && ++objects < kMaxDefectsOfCall) continue;
    const bool is_plugin = session->ended_in_library();
    if (attempts.again(is_plugin ? end_in_library(*session) : rpc::End::crashed)) continue;
    Error error{EIO, fmt::format("libhdf5 {} {} {}{}", cause, kind_of(call).action, path_,
                                 is_plugin ? "" : "; the file is damaged")};
    log::warning("{}", error.reason);
    const LockGuard lock(mutex_);
    if (refused_.size() < kMaxRefused && request.bulk.empty()) refused_.emplace(key, error);
    return std::unexpected(std::move(error));
  }
}

}  // namespace codecfs::worker
