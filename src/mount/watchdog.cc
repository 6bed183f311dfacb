#include "mount/watchdog.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/close_from.h"
#include "base/fd_passing.h"
#include "base/log.h"
#include "base/mount_table.h"

namespace codecfs::mount {
namespace {

constexpr const char* kConnections = "/sys/fs/fuse/connections/";
constexpr int kAbort = 0;  // in the child: /dev/null if not accessible
constexpr int kControl = 3;
constexpr int kAboveThose = 10;
constexpr int kDeath = SIGUSR1;  // sent when the thread that forked the child dies

/// None with errno. The descriptor refers to this connection, even if it ends and its number is reused.
UniqueFd open_abort(const std::string& connection) {
  const std::string file = connection + "/abort";
  UniqueFd abort(::open((std::string(kConnections) + file).c_str(), O_WRONLY | O_CLOEXEC));
  if (abort || errno != ENOENT) return abort;
  // If fusectl is not mounted (containers), root can create a detached mount of it. glibc has functions since 2.36.
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC)));
  if (!context || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  const UniqueFd directory(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  if (!directory) return {};
  return UniqueFd(::openat(directory.get(), file.c_str(), O_WRONLY | O_CLOEXEC));
}

UniqueFd raised(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, kAboveThose)); }

// Runs in the forked child of a multithreaded process, so only async-signal-safe calls are allowed.
[[noreturn]] void become_watchdog(int abort, int null, int control, bool keeps_stderr, char* const* words) {
  ::dup2(abort, kAbort);
  ::dup2(null, STDOUT_FILENO);
  if (!keeps_stderr) ::dup2(null, STDERR_FILENO);
  ::dup2(control, kControl);
  close_from(kControl + 1);  // above all the FUSE device and locks
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_PDEATHSIG, kDeath);
  ::setsid();
  if (::chdir("/") == 0) ::execv("/proc/self/exe", words);
  ::_exit(127);
}

struct Entry {
  uint64_t id;
  UniqueFd source;
  UniqueFd log;
};

/// False if the daemon has exited.
bool receive(std::vector<Entry>& written) {
  uint64_t id = 0;
  Datagram told = receive_datagram(kControl, sizeof id);
  if (told.bytes.size() != sizeof id) return false;
  std::memcpy(&id, told.bytes.data(), sizeof id);
  std::erase_if(written, [&](const Entry& entry) { return entry.id == id; });
  if (told.fds.empty()) return true;  // an entry without descriptors ends the write
  Entry entry{id, std::move(told.fds[0]), {}};
  if (told.fds.size() > 1) entry.log = std::move(told.fds[1]);
  written.push_back(std::move(entry));
  return true;
}

}  // namespace

Watchdog::Watchdog(const std::string& mountpoint, std::string source, bool writes, std::string log)
    : source_(std::move(source)), log_(std::move(log)) {
  if (const auto mount = mount_at(mountpoint)) {
    abort_ = open_abort(mount->device.substr(mount->device.find(':') + 1));
    if (!abort_)
      log::info(
          "no access to {} ({}): should this process be killed, its clients may have to wait for a forced unmount",
          kConnections, std::strerror(errno));
  }
  if (!abort_ && !writes) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    log::warning("should this process be killed, no other one completes its work: no thread can be made: {}",
                 error.what());
    return;
  }
  {
    UniqueLock lock(mutex_);
    started_.wait(lock, [this]() CODECFS_REQUIRES(mutex_) { return is_started_; });
  }
  if (writes) observe_writing(this);
}

Watchdog::~Watchdog() {
  observe_writing(nullptr);
  {
    const LockGuard lock(mutex_);
    stopped_ = true;
    if (child_ > 0) ::kill(child_, SIGKILL);
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::run() {
  while (true) {
    const bool started = start();
    int socket = -1;
    pid_t child = -1;
    {
      const LockGuard lock(mutex_);
      is_started_ = true;
      socket = socket_.get();
      child = child_;
    }
    started_.notify_all();
    if (!started) return;
    pollfd word{socket, POLLIN, 0};
    while (::poll(&word, 1, -1) < 0 && errno == EINTR) continue;
    const bool was_ready = (word.revents & POLLIN) != 0 && !receive_datagram(word.fd, 1).bytes.empty();
    // Leave the child a zombie meanwhile, so that its process id is not reused before it is killed.
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
    const LockGuard lock(mutex_);
    ::waitpid(child, nullptr, 0);
    child_ = -1;
    socket_.reset();
    if (stopped_) return;
    if (!was_ready) {
      log::warning("the process that would complete the work of this one after a kill cannot be started");
      return;
    }
    log::warning("the process that would complete the work of this one after a kill was killed: another is started");
  }
}

bool Watchdog::start() {
  const LockGuard lock(mutex_);
  if (stopped_) return false;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) ends = {-1, -1};
  UniqueFd ours(ends[0]);
  const UniqueFd control = raised(UniqueFd(ends[1]).get());
  const UniqueFd null = raised(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)).get());
  const UniqueFd abort = raised(abort_ ? abort_.get() : null.get());
  const std::string parent = fmt::format("{}", ::getpid());
  const std::array<const char*, 5> words = {kWatchdogName, parent.c_str(), log_.c_str(), source_.c_str(), nullptr};
  child_ = control && null && abort ? ::fork() : -1;
  if (child_ == 0)
    become_watchdog(abort.get(), null.get(), control.get(), log_ == "stderr", const_cast<char* const*>(words.data()));
  if (child_ < 0) {
    log::warning("no process that would complete the work of this one after a kill: {}", std::strerror(errno));
    return false;
  }
  // A blocked child must not block the daemon.
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  socket_ = std::move(ours);
  for (const auto& [id, written] : written_) send(id, written);
  return true;
}

void Watchdog::send(uint64_t id, const Written& written) const {
  const std::string_view bytes(reinterpret_cast<const char*>(&id), sizeof id);
  const std::array<int, 2> fds = {written.source.get(), written.log.get()};
  const size_t count = written.source ? (written.log ? 2 : 1) : 0;
  if (socket_ && !send_datagram(socket_.get(), bytes, std::span(fds).first(count)))
    log::debug("the watchdog cannot be notified of a source: {}", std::strerror(errno));
}

void Watchdog::began(uint64_t id, int source, int log) {
  const LockGuard lock(mutex_);
  Written& written = written_[id];
  written.source = UniqueFd(::fcntl(source, F_DUPFD_CLOEXEC, 0));
  written.log = UniqueFd(log < 0 ? -1 : ::fcntl(log, F_DUPFD_CLOEXEC, 0));
  send(id, written);
}

void Watchdog::ended(uint64_t id) {
  const LockGuard lock(mutex_);
  written_.erase(id);
  send(id, {});
}

int run_watchdog(int argc, char** argv) {
  pid_t parent = 0;
  if (argc != 4 || std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), parent).ec != std::errc()) return 1;
  ::prctl(PR_SET_NAME, kWatchdogName);
  const std::string_view log = argv[2];
  if (log == "syslog")
    log::to_syslog();
  else if (log != "stderr")
    (void)log::to_file(argv[2]);
  sigset_t death;
  ::sigemptyset(&death);
  ::sigaddset(&death, kDeath);
  const UniqueFd deaths(::signalfd(-1, &death, SFD_CLOEXEC | SFD_NONBLOCK));
  // Report readiness. If the daemon died before, this fails, but the socket still has the sources that it sent.
  (void)send_datagram(kControl, "r");
  std::vector<Entry> written;
  std::array<pollfd, 2> events = {pollfd{kControl, POLLIN, 0}, pollfd{deaths.get(), POLLIN, 0}};
  bool is_over = ::getppid() != parent;
  while (!is_over) {
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    is_over = events[1].revents != 0 || (events[0].revents != 0 && !receive(written));
  }
  [[maybe_unused]] const ssize_t aborted = ::write(kAbort, "1", 1);
  // Read the remaining messages without blocking: another process may still hold the daemon's end of the socket.
  ::fcntl(kControl, F_SETFL, O_NONBLOCK);
  while (receive(written)) continue;
  for (const Entry& entry : written) {
    const Result<std::string> told = recover_after_crash(entry.source.get(), entry.log.get());
    if (told)
      log::info("after the death of process {}: {}", parent, *told);
    else
      log::error("after the death of process {}: {}; codecfs recover brings in what was written", parent,
                 told.error().reason);
  }
  return 0;
}

}  // namespace codecfs::mount
