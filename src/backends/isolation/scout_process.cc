// Forks scouts and records their crashes. The signal handlers only use async-signal-safe functions.

#include "backends/isolation/scout_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "backends/hdf5/library/library_lock.h"
#include "base/fd_passing.h"
#include "base/log.h"
#include "base/mutex.h"
#include "filters/plugins/plugins.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

constexpr int kControl = 3;  // in the fork server
constexpr int kSocket = 4;   // in the scout, like kTrace
constexpr int kTrace = 5;
constexpr uint64_t kBytesPerSecond = uint64_t{20} << 20;  // lower bound for libhdf5's throughput
constexpr unsigned kMaxSeconds = 60;

ScoutTrace* own_trace = nullptr;  // in a scout
unsigned seconds_of_a_step = kScoutSeconds;
uint64_t memory_at_start = 0;  // bytes

std::shared_ptr<ScoutTrace> map_trace(int fd) {
  void* at = ::mmap(nullptr, sizeof(ScoutTrace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<ScoutTrace*>(at), [](ScoutTrace* trace) { ::munmap(trace, sizeof(ScoutTrace)); }};
}

// --- the scout

extern "C" void on_fatal_signal(int signal) {
  own_trace->end = signal;
  ::_exit(1);
}

// The handlers need their own stack, as the thread's may have overflowed.
void install_crash_handlers() {
  constexpr size_t kStack = size_t{64} << 10;
  static std::array<char, kStack> stack;
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  ::sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP, SIGPROF}) {
    struct sigaction action{};
    action.sa_handler = on_fatal_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
  std::set_new_handler(exit_out_of_memory);
}

uint64_t address_space() {
  unsigned long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return uint64_t{pages} * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(uint64_t more) {
  rlimit memory{memory_at_start + kScoutMemory + more, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &memory);
}

[[noreturn]] void run_scout() {
  filters::use_plugins_in_process();  // it may crash
  static std::shared_ptr<ScoutTrace> trace;
  trace = map_trace(kTrace);
  ::close(kTrace);
  if (!trace) ::_exit(1);
  own_trace = trace.get();
  own_trace->pid = ::getpid();
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  memory_at_start = address_space();
  limit_memory(0);
  install_crash_handlers();
  serve_scout(kSocket);
  ::_exit(0);  // without static destructors: libhdf5's would access the open files
}

// --- the fork server

/// Receives the two descriptors of a new scout as kSocket and kTrace. False: the daemon has ended.
bool receive_descriptors() {
  Datagram message = receive_datagram(kControl, 1);
  if (message.bytes.empty()) return false;
  if (message.fds.size() != 2) return true;
  // Received descriptors get the lowest free numbers, which are these.
  return message.fds[0].release() == kSocket && message.fds[1].release() == kTrace;
}

[[noreturn]] void run_fork_server(int control) {
  reset_library_lock();  // a thread of the parent may hold it
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // reap children automatically
  // Close all inherited descriptors and leave the directory, so that nothing stays in use.
  if (control != kControl) ::dup2(control, kControl);
  ::close_range(kControl + 1, ~0U, 0);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::close(null);
  if (::chdir("/") != 0) ::_exit(1);
  sigset_t all;
  ::sigemptyset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  while (receive_descriptors()) {
    if (::fork() == 0) {
      ::close(kControl);
      run_scout();
    }
    ::close(kSocket);
    ::close(kTrace);
  }
  ::_exit(0);
}

Mutex fork_server_mutex;
UniqueFd& fork_server() CODECFS_REQUIRES(fork_server_mutex) {
  static auto& fd = *new UniqueFd;
  return fd;
}

Result<> fork_the_server() CODECFS_REQUIRES(fork_server_mutex) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno(errno, "cannot create a socket");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "cannot fork the process that checks HDF5 files");
  if (child == 0) {
    // Fork twice, so that init reaps the server.
    if (::fork() == 0) run_fork_server(theirs.get());
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  fork_server() = std::move(ours);
  return {};
}

bool send_descriptors(int socket, int trace) CODECFS_REQUIRES(fork_server_mutex) {
  return send_datagram(fork_server().get(), "b", std::array{socket, trace});
}

}  // namespace

void start_fork_server() {
  const LockGuard guard(fork_server_mutex);
  if (fork_server()) return;
  if (const Result<> forked = fork_the_server(); !forked) log::warning("{}", forked.error().reason);
}

Result<ScoutProcess> start_scout() {
  const UniqueFd page(::memfd_create("codecfs-scout", MFD_CLOEXEC));
  if (!page || ::ftruncate(page.get(), sizeof(ScoutTrace)) != 0)
    return fail_errno(errno, "cannot create shared memory");
  ScoutProcess scout;
  scout.trace = map_trace(page.get());
  std::array<int, 2> ends{};
  if (!scout.trace) return fail_errno(ENOMEM, "cannot create shared memory");
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno(errno, "cannot create a socket");
  scout.socket = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  const LockGuard guard(fork_server_mutex);
  if (!fork_server()) CODECFS_TRY(fork_the_server());
  if (send_descriptors(theirs.get(), page.get())) return scout;
  // Do not fork another server: its copy of libhdf5 would have our files open.
  return fail(EIO, "the process that checks HDF5 files was killed; mount again");
}

// The process cannot have been reaped and its id reused while its end of the socket is open.
void ScoutProcess::kill() {
  if (const int pid = trace ? trace->pid.load() : 0; pid > 0 && socket) ::kill(pid, SIGKILL);
  socket.reset();
}

void note_step(uint64_t address) {
  own_trace->address.store(address, std::memory_order_relaxed);
  own_trace->steps.fetch_add(1, std::memory_order_relaxed);
  const itimerval allowance{{0, 0}, {static_cast<time_t>(seconds_of_a_step), 0}};
  ::setitimer(ITIMER_PROF, &allowance, nullptr);
}

void set_limits(uint64_t file, uint64_t chunk) {
  const uint64_t seconds = kScoutSeconds + file / kBytesPerSecond + chunk / kBytesPerSecond;
  seconds_of_a_step = static_cast<unsigned>(std::min<uint64_t>(seconds, kMaxSeconds));
  limit_memory(3 * std::min(chunk, max_chunk_bytes()));
}

void exit_out_of_memory() {
  own_trace->end = ScoutTrace::kOutOfMemory;
  ::_exit(1);
}

void exit_damaged(const char* reason) {
  std::snprintf(own_trace->reason.data(), own_trace->reason.size(), "%s", reason);
  own_trace->end = ScoutTrace::kDamage;
  ::_exit(1);
}

}  // namespace codecfs::hdf5
