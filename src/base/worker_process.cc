// Starts workers and records how they end. The signal handlers only use async-signal-safe functions.

#include "base/worker_process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <span>

#include "base/close_from.h"
#include "base/fail_points.h"
#include "base/fd_passing.h"
#include "base/log.h"
#include "base/mutex.h"

namespace codecfs {
namespace {

constexpr int kControl = 3;  // in a supervisor: the daemon; in a worker, too
constexpr int kTrace = 4;    // in a worker

// std::atomic::wait() does not work between processes.
void wake_all(std::atomic<int>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX); }
/// Waits while it is 0, at most for some nanoseconds.
void wait_while_zero(std::atomic<int>& word, long nanoseconds) {
  const timespec most{0, nanoseconds};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, &most);
}

std::shared_ptr<WorkerTrace> map_trace(int fd) {
  void* at = ::mmap(nullptr, sizeof(WorkerTrace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<WorkerTrace*>(at), [](WorkerTrace* trace) { ::munmap(trace, sizeof(WorkerTrace)); }};
}

// --- in a worker

WorkerTrace* trace_of_worker = nullptr;
uint64_t memory_at_start = 0;  // bytes

// What a thread does. Read by signal handlers of the same thread.
struct Step {
  volatile uint32_t culprit = 0;
  volatile uint64_t address = 0;
  volatile unsigned seconds = 0;  // the limit; 0: none
  volatile unsigned spent = 0;    // whole seconds without progress, and the part of one that came first
  // Either of these changes when there is progress.
  volatile uint64_t accesses = 0;
  const std::atomic<uint64_t>* volatile progress = nullptr;
  volatile uint64_t seen = 0;              // their sum, one second ago
  bool has_timer = false;                  // that signals each second of processor time
  const char* volatile library = nullptr;  // see LibraryCode
  bool has_alarm = false;
  timer_t alarm{};  // for LibraryCode
};
thread_local Step step;

void record_end(int end) {
  if (const char* name = step.library; name != nullptr && end != WorkerTrace::kDamaged) {
    auto& reason = trace_of_worker->reason;
    size_t i = 0;
    for (; i + 1 < reason.size() && name[i] != '\0'; ++i) reason[i] = name[i];
    reason[i] = '\0';
  }
  trace_of_worker->address = step.address;
  trace_of_worker->culprit = step.culprit;
  trace_of_worker->end = end;
}

uint64_t count_progress() {
  const std::atomic<uint64_t>* progress = step.progress;
  return step.accesses + (progress == nullptr ? 0 : progress->load(std::memory_order_relaxed));
}

/// A timer of this clock that sends a signal to this thread.
bool make_timer(clockid_t clock, int signal, timer_t& timer) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  return ::timer_create(clock, &event, &timer) == 0;
}

// Left running, because setting it is a system call, and a thread that waits uses no processor time.
void start_timer() {
  if (step.has_timer) return;
  step.has_timer = true;
  timer_t timer{};
  if (!make_timer(CLOCK_THREAD_CPUTIME_ID, SIGPROF, timer)) return;
  itimerspec interval{};
  interval.it_value.tv_sec = interval.it_interval.tv_sec = 1;
  ::timer_settime(timer, 0, &interval, nullptr);
}

void on_fatal_signal(int signal) {
  record_end(signal);
  ::_exit(1);
}

void on_second(int) {
  if (step.seconds == 0) return;
  const uint64_t now = count_progress();
  step.spent = now == step.seen ? step.spent + 1 : 0;
  step.seen = now;
  if (step.spent <= step.seconds) return;
  record_end(WorkerTrace::kOutOfTime);
  ::_exit(1);
}

void on_alarm(int) {
  if (step.library == nullptr) return;  // it has returned just now
  record_end(WorkerTrace::kTooSlow);
  ::_exit(1);
}

void set_alarm(unsigned seconds) {
  itimerspec when{};
  when.it_value.tv_sec = seconds;
  ::timer_settime(step.alarm, 0, &when, nullptr);
}

// Handlers need their own stack, as the thread's may have overflowed.
void use_signal_stack() {
  constexpr size_t kStack = size_t{64} << 10;
  static thread_local bool has_stack = false;
  if (has_stack) return;
  has_stack = true;
  void* stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return;
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = kStack;
  ::sigaltstack(&other, nullptr);
}

void install_handlers() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP}) {
    struct sigaction action{};
    action.sa_handler = on_fatal_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
  struct sigaction action{};
  action.sa_handler = on_second;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGPROF, &action, nullptr);
  action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  std::set_new_handler(end_out_of_memory);
}

uint64_t address_space() {
  unsigned long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return uint64_t{pages} * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void run_worker(WorkerMain main) {
  static std::shared_ptr<WorkerTrace> trace;
  trace = map_trace(kTrace);
  ::close(kTrace);
  if (!trace) ::_exit(1);
  trace_of_worker = trace.get();
  trace->pid = ::getpid();
  wake_all(trace->pid);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  memory_at_start = address_space();
  ::signal(SIGCHLD, SIG_DFL);
  use_signal_stack();
  install_handlers();
  main(kControl);
  ::_exit(0);  // without static destructors: libraries would access open files
}

// --- in a supervisor

struct Order {
  WorkerMain main = nullptr;  // null: fork another supervisor. Valid because a fork has the same addresses.
  bool fails = false;         // a test's: as if there could be no more processes
};

[[noreturn]] void run_supervisor(int control, void (*prepare)() = nullptr);

/// Forks a child that runs this. 0 if that fails.
template <class Run>
pid_t fork_to(const Run& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    forget_held_locks();
    run();
  }
  return std::max(child, 0);
}

// Closes all descriptors but these, which get the numbers from kControl on.
void keep_only(std::span<const int> fds) {
  std::array<int, kMaxPassedFds> copies{};
  const int above = kControl + static_cast<int>(fds.size());  // a low limit of descriptors must do
  for (size_t i = 0; i < fds.size(); ++i) copies[i] = ::fcntl(fds[i], F_DUPFD_CLOEXEC, above);
  for (size_t i = 0; i < fds.size(); ++i) ::dup3(copies[i], kControl + static_cast<int>(i), O_CLOEXEC);
  close_from(static_cast<unsigned>(kControl) + static_cast<unsigned>(fds.size()));
}

/// Without this, the daemon would take the worker for one that was killed.
void note_not_started(int page, int code) {
  const std::shared_ptr<WorkerTrace> trace = map_trace(page);
  if (!trace) return;
  trace->culprit = static_cast<uint32_t>(code);
  trace->end = WorkerTrace::kNotStarted;
}

void run_supervisor(int control, void (*prepare)()) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ})
    ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // its children leave no zombies
  keep_only(std::array{control});
  ::prctl(PR_SET_NAME, "codecfs-super");  // for ps(1)
  // Leave all inherited files and directories, so that nothing stays in use.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::close(null);
  if (::chdir("/") != 0) ::_exit(1);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  if (prepare != nullptr) prepare();
  for (;;) {
    Order order;
    Datagram message = receive_datagram(kControl, sizeof order);
    if (message.bytes.empty()) ::_exit(0);  // the daemon has ended
    if (message.bytes.size() != sizeof order || message.fds.empty()) continue;
    std::memcpy(&order, message.bytes.data(), sizeof order);
    if (order.main == nullptr) {
      fork_to([&] { run_supervisor(message.fds[0].get()); });
    } else if (message.fds.size() == 2) {
      const pid_t child = order.fails ? (errno = EAGAIN, 0) : fork_to([&] {
        keep_only(std::array{message.fds[0].get(), message.fds[1].get()});
        run_worker(order.main);
      });
      if (child == 0) note_not_started(message.fds[1].get(), errno);
    }
  }
}

// --- in the daemon

Mutex supervisors_mutex;
using Supervisors = std::array<UniqueFd, 2>;
Supervisors& supervisors() CODECFS_REQUIRES(supervisors_mutex) {
  static auto& both = *new Supervisors;
  return both;
}
pid_t first_supervisor CODECFS_GUARDED_BY(supervisors_mutex) = 0;  // a child of the daemon that stays in the foreground

Result<std::array<UniqueFd, 2>> make_socket() {
  std::array<int, 2> ends{};
  if (FailPoints::fails(FailPoint::descriptor) ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno(errno, "cannot create a socket");
  return std::array{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool send_order(const UniqueFd& supervisor, const Order& order, std::span<const int> fds) {
  const std::string_view bytes(reinterpret_cast<const char*>(&order), sizeof order);
  return supervisor && send_datagram(supervisor.get(), bytes, fds);
}

// Has one supervisor fork the other. False if it cannot be asked.
bool replace(UniqueFd& other, const UniqueFd& supervisor) CODECFS_REQUIRES(supervisors_mutex) {
  auto ends = make_socket();
  if (!ends || !send_order(supervisor, Order{}, std::array{(*ends)[1].get()})) return false;
  other = std::move((*ends)[0]);
  if (first_supervisor > 0 && ::waitpid(first_supervisor, nullptr, WNOHANG) != 0) first_supervisor = 0;
  return true;
}

// Forks only one, because a fork takes about a millisecond; the first forks the second.
Result<> fork_supervisors(void (*prepare)() = nullptr) CODECFS_REQUIRES(supervisors_mutex) {
  Supervisors& both = supervisors();
  CODECFS_ASSIGN(auto ends, make_socket());
  first_supervisor = fork_to([&] { run_supervisor(ends[1].get(), prepare); });
  if (first_supervisor == 0) return fail_errno(errno, "cannot fork the process that starts workers");
  both[0] = std::move(ends[0]);
  if (!replace(both[1], both[0])) return fail(EIO, "cannot fork the process that starts workers");
  return {};
}

Result<> order(const Order& order, std::span<const int> fds) CODECFS_REQUIRES(supervisors_mutex) {
  Supervisors& both = supervisors();
  if (!both[0] && !both[1]) CODECFS_TRY(fork_supervisors());
  for (size_t i = 0; i < both.size(); ++i) {
    if (!send_order(both[i], order, fds)) continue;
    // The other one has closed its socket if it was killed.
    pollfd event{both[1 - i].get(), 0, 0};
    if (!both[1 - i] || ::poll(&event, 1, 0) != 0) (void)replace(both[1 - i], both[i]);
    return {};
  }
  return fail(EIO, "the processes that start workers were killed; mount again");
}

}  // namespace

void start_supervisors(void (*prepare)()) {
  const LockGuard guard(supervisors_mutex);
  if (supervisors()[0]) return;
  if (const Result<> forked = fork_supervisors(prepare); !forked) log::warning("{}", forked.error().reason);
}

Result<WorkerProcess> start_worker(WorkerMain main) {
  const UniqueFd page(::memfd_create("codecfs-worker", MFD_CLOEXEC));
  if (!page || ::ftruncate(page.get(), sizeof(WorkerTrace)) != 0)
    return fail_errno(errno, "cannot create shared memory");
  WorkerProcess worker;
  worker.trace = map_trace(page.get());
  if (!worker.trace) return fail(ENOMEM, "cannot map shared memory");
  CODECFS_ASSIGN(auto ends, make_socket());
  const LockGuard guard(supervisors_mutex);
  CODECFS_TRY(order(Order{main, FailPoints::fails(FailPoint::process)}, std::array{ends[1].get(), page.get()}));
  worker.control = std::move(ends[0]);
  return worker;
}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  control = std::move(other.control);
  trace = std::move(other.trace);
  pid = other.pid;
  return *this;
}

bool WorkerProcess::await_start() {
  constexpr long kMillisecond = 1'000'000;
  while (trace->pid == 0) {
    wait_while_zero(trace->pid, kMillisecond);
    pollfd event{control.get(), 0, 0};
    if (::poll(&event, 1, 0) > 0) break;
  }
  pid = trace->pid;  // it may have ended since it set this
  return pid > 0;
}

void WorkerProcess::kill() {
  end();
  control.reset();
}

Result<> WorkerProcess::was_started() const {
  if (!trace || trace->end != WorkerTrace::kNotStarted) return {};
  const int code = trace->culprit == ENOMEM ? ENOMEM : EAGAIN;
  return fail(code,
              "cannot start a process ({}): the limit of processes (ulimit -u) or of the control group (pids.max) is "
              "reached",
              std::strerror(code));
}

// The process cannot have been reaped and its id reused while its end of the socket is open.
void WorkerProcess::end() const {
  if (!control || !trace) return;
  ::shutdown(control.get(), SHUT_WR);  // if it has not begun to run, it ends when it does
  pollfd event{control.get(), 0, 0};
  const int own = pid != 0 ? pid : trace->pid.load();
  if (own > 0 && ::poll(&event, 1, 0) == 0) ::kill(own, SIGKILL);
}

// Its sockets are closed before its locks are released and before it is a zombie.
void WorkerProcess::await_end() const {
  pollfd event{control.get(), 0, 0};  // POLLHUP is always reported
  while (control && ::poll(&event, 1, -1) < 0 && errno == EINTR) continue;
  const int own = pid != 0 ? pid : trace ? trace->pid.load() : 0;
  if (own <= 0) return;
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, own, 0)));
  pollfd end{process.get(), POLLIN, 0};
  constexpr int kMax = 10'000;  // milliseconds; if the id belongs to another process already
  while (process && ::poll(&end, 1, kMax) < 0 && errno == EINTR) continue;
}

std::string WorkerProcess::cause_of_end() const {
  const int end = trace ? trace->end.load() : 0;
  if (end == 0) return "";
  std::string reason(trace->reason.data(), trace->reason.size());
  reason.resize(std::strlen(reason.c_str()));  // a hostile worker may have left no zero byte
  if (end == WorkerTrace::kDamaged) return "reports damage: " + reason;
  const std::string where = reason.empty() ? "" : " in " + reason;
  switch (end) {
    case WorkerTrace::kOutOfMemory: return "needs more memory than allowed" + where;
    case WorkerTrace::kOutOfTime: return "needs more processor time than allowed" + where;
    case WorkerTrace::kTooSlow: return "did not finish in time" + where;
    case WorkerTrace::kOutOfThreads: return "cannot create a thread";
    case WorkerTrace::kNotStarted: return "cannot be started";
    default: return fmt::format("crashes ({}){}", ::strsignal(end), where);
  }
}

bool WorkerProcess::ended_in_library() const {
  const int end = trace ? trace->end.load() : 0;
  return end != 0 && end != WorkerTrace::kDamaged && trace->reason[0] != '\0';
}

WorkerTrace* own_trace() { return trace_of_worker; }

void begin_step(uint32_t culprit, unsigned seconds, const std::atomic<uint64_t>* progress) {
  use_signal_stack();
  if (seconds != 0) start_timer();
  step.culprit = culprit;
  step.address = 0;
  step.progress = progress;
  step.spent = 0;
  step.seen = count_progress();
  step.seconds = seconds;
}

void end_step() {
  step.seconds = 0;
  step.culprit = 0;
  step.progress = nullptr;
}

uint32_t current_step() { return step.culprit; }
JoinedStep::JoinedStep(uint32_t culprit) : before_(step.culprit) { step.culprit = culprit; }
JoinedStep::~JoinedStep() { step.culprit = before_; }

LibraryCode::LibraryCode(const char* library, unsigned seconds) : outer_(step.library) {
  if (trace_of_worker == nullptr || outer_ != nullptr) return;
  step.library = library;
  if (seconds == 0) return;
  if (!step.has_alarm) step.has_alarm = make_timer(CLOCK_MONOTONIC, SIGALRM, step.alarm);
  if (step.has_alarm) set_alarm(seconds);
}

LibraryCode::~LibraryCode() {
  if (trace_of_worker == nullptr || outer_ != nullptr) return;
  step.library = nullptr;
  if (step.has_alarm) set_alarm(0);
}

void extend_step(unsigned more_seconds) {
  if (step.seconds == 0) return;
  step.seconds = step.seconds + more_seconds;
  step.spent = 0;
}

void note_access(uint64_t address) {
  step.address = address;
  step.accesses = step.accesses + 1;
}

uint64_t accessed_address() { return step.address; }

void limit_memory(uint64_t more) {
  rlimit memory{};
  if (::getrlimit(RLIMIT_AS, &memory) != 0) return;
  memory.rlim_cur = memory_at_start + more;
  ::setrlimit(RLIMIT_AS, &memory);
}

void end_out_of_memory() {
  if (trace_of_worker != nullptr) record_end(WorkerTrace::kOutOfMemory);
  ::_exit(1);
}

void end_out_of_threads() {
  if (trace_of_worker != nullptr) record_end(WorkerTrace::kOutOfThreads);
  ::_exit(1);
}

void end_damaged(const char* reason) {
  if (trace_of_worker != nullptr) {
    std::snprintf(trace_of_worker->reason.data(), trace_of_worker->reason.size(), "%s", reason);
    record_end(WorkerTrace::kDamaged);
  }
  ::_exit(1);
}

}  // namespace codecfs
