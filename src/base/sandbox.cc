#include "base/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file_calls.h"

namespace codecfs {
namespace {

// What is allowed with any arguments. Names, because libseccomp skips those that this architecture lacks.
constexpr std::array kAllowed{
    // descriptors that are open
    "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2", "lseek",
    "_llseek", "close", "close_range", "fstat", "fstat64", "fstatfs", "ftruncate", "ftruncate64", "fallocate", "fsync",
    "fdatasync", "sync_file_range", "fadvise64", "fadvise64_64", "copy_file_range", "sendfile", "flock", "dup", "dup2",
    "dup3", "pipe", "pipe2", "eventfd2", "poll", "ppoll", "select", "_newselect", "pselect6", "epoll_create1",
    "epoll_ctl", "epoll_wait", "epoll_pwait",
    // the connection to the daemon
    "sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown", "getsockopt",
    // memory
    "mmap", "mmap2", "munmap", "mremap", "mprotect", "madvise", "mincore", "msync", "brk", "membarrier",
    "get_mempolicy",
    // threads of this process; clone() is below
    "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "gettid", "getpid",
    "getppid", "exit", "exit_group", "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getscheduler",
    "sched_getparam", "sched_get_priority_max", "sched_get_priority_min", "getcpu", "arch_prctl", "restart_syscall",
    // time
    "clock_gettime", "clock_gettime64", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times",
    "getrusage", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "setitimer",
    "getitimer", "alarm",
    // its own signals
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigreturn", "rt_sigsuspend", "rt_sigpending", "rt_sigtimedwait",
    "sigaltstack", "pause",
    // questions
    "getrandom", "uname", "sysinfo", "getuid", "geteuid", "getgid", "getegid", "getrlimit", "ugetrlimit"};

// Beside the file calls, what a process that works with files needs.
constexpr std::array kAllowedWithFiles{"getdents64", "getcwd", "memfd_create", "syncfs", "flistxattr",
                                       // To give up capabilities after the filter was installed.
                                       "capset"};

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};

/// Allows a call if its argument, with this mask, has this value. False on errors.
bool allow_if(scmp_filter_ctx filter, const char* name, unsigned argument, uint64_t mask, uint64_t value) {
  const int call = seccomp_syscall_resolve_name(name);
  if (call == __NR_SCMP_ERROR) return true;
  const scmp_arg_cmp condition{argument, SCMP_CMP_MASKED_EQ, mask, value};
  return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &condition) == 0;
}

/// What happens to file calls.
enum class FileRule { refuse, notify, allow };

bool add_file_calls(scmp_filter_ctx filter, FileRule rule) {
  const uint32_t action = rule == FileRule::notify ? SCMP_ACT_NOTIFY : SCMP_ACT_ALLOW;
  for (const char* name : file_call_names()) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) continue;
    int status = 0;
    // Those of open descriptors are allowed by filter_system_calls().
    const bool is_newfstatat = call == SCMP_SYS(newfstatat);
    if (is_newfstatat || call == SCMP_SYS(statx)) {
      const scmp_arg_cmp has_path{is_newfstatat ? 3U : 2U, SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0};
      status = seccomp_rule_add_array(filter, action, call, 1, &has_path);
    } else {
      status = seccomp_rule_add(filter, action, call, 0);
    }
    if (status != 0) return false;
  }
  for (const char* name : kAllowedWithFiles)
    if (seccomp_rule_add(filter, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name), 0) != 0) return false;
  return true;
}

/// For FileRule::notify, `listener` is set.
bool filter_system_calls(FileRule rule, UniqueFd* listener) {
  const std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return false;
  for (const char* name : kAllowed) {
    if (rule != FileRule::refuse && std::string_view(name) == "flock") continue;  // one of the file calls
    const int call = seccomp_syscall_resolve_name(name);
    if (call != __NR_SCMP_ERROR && seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0) != 0) return false;
  }
  if (rule != FileRule::refuse && !add_file_calls(filter.get(), rule)) return false;
  constexpr uint64_t kAll = UINT32_MAX;  // of arguments that are an int
  bool good = true;
  // Threads, but no processes. clone3() passes its flags in memory, which a filter cannot read; the C library then uses
  // clone().
  good &= allow_if(filter.get(), "clone", 0, CLONE_THREAD, CLONE_THREAD);
  good &= seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
  // The C library's fstat() is a call with AT_EMPTY_PATH.
  good &= allow_if(filter.get(), "newfstatat", 3, AT_EMPTY_PATH, AT_EMPTY_PATH);
  good &= allow_if(filter.get(), "statx", 2, AT_EMPTY_PATH, AT_EMPTY_PATH);
  // F_SETOWN would send signals to other processes.
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
                            F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_ADD_SEALS, F_GET_SEALS})
    for (const char* name : {"fcntl", "fcntl64"})
      good &= allow_if(filter.get(), name, 1, kAll, static_cast<uint64_t>(command));
  // Signals to itself, limits of itself.
  const auto own = static_cast<uint64_t>(::getpid());
  for (const char* name : {"tgkill", "kill", "prlimit64"}) good &= allow_if(filter.get(), name, 0, kAll, own);
  good &= allow_if(filter.get(), "prlimit64", 0, kAll, 0);
  good &= allow_if(filter.get(), "prctl", 0, kAll, PR_SET_NAME);
  good &= allow_if(filter.get(), "prctl", 0, kAll, PR_GET_NAME);
  (void)seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree instead of a list
  // For threads that a library has started. Not together with a listener, which old kernels refuse.
  if (rule == FileRule::refuse) good &= seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1) == 0;
  if (!good || seccomp_load(filter.get()) != 0) return false;
  if (rule != FileRule::notify) return true;
  // This process must not keep it: its calls would wait forever if the other end closed its own.
  const UniqueFd own_listener(seccomp_notify_fd(filter.get()));
  *listener = UniqueFd(::fcntl(own_listener.get(), F_DUPFD_CLOEXEC, 0));
  return true;
}

void empty_bounding_set() {
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned long i = 0; i <= CAP_LAST_CAP; ++i) (void)::prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

/// Gives up all capabilities but these (bits), of those that it has.
bool keep_capabilities(uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (kept != 0 && ::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto mask = static_cast<uint32_t>(kept >> 32 * i);
    sets.at(i) = {sets.at(i).effective & mask, sets.at(i).permitted & mask, 0};
  }
  return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

bool set_limits(unsigned most_files) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  files.rlim_max = std::min<rlim_t>(files.rlim_max, most_files);
  files.rlim_cur = files.rlim_max;
  const rlimit nothing{0, 0};
  return ::setrlimit(RLIMIT_NOFILE, &files) == 0 && ::setrlimit(RLIMIT_CORE, &nothing) == 0;
}

/// Linux 5.9 passes descriptors to a process by its listener.
bool has_listeners() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;  // NOLINT
  constexpr unsigned kLevel = 5;  // of libseccomp's interface, which it detects in the kernel
  return std::pair(major, minor) >= std::pair(5U, 9U) && ::seccomp_api_get() >= kLevel;
}

SandboxParts only_if(SandboxPart part, bool is_active) { return is_active ? static_cast<uint32_t>(part) : 0; }

}  // namespace

SandboxParts enter_sandbox(unsigned most_files) {
  SandboxParts parts = only_if(SandboxPart::limits, set_limits(most_files));
  empty_bounding_set();
  parts |= only_if(SandboxPart::no_capabilities, keep_capabilities(0));
  parts |= only_if(SandboxPart::no_new_privileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  parts |= only_if(SandboxPart::system_calls, filter_system_calls(FileRule::refuse, nullptr));
  return parts;
}

FileSandbox enter_file_sandbox(unsigned most_files, bool may_listen) {
  FileSandbox sandbox;
  sandbox.parts = only_if(SandboxPart::limits, set_limits(most_files));
  empty_bounding_set();
  sandbox.parts |= only_if(SandboxPart::no_new_privileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (may_listen && has_listeners() && filter_system_calls(FileRule::notify, &sandbox.listener)) {
    sandbox.parts |= only_if(SandboxPart::system_calls, true) | only_if(SandboxPart::file_calls, true);
    sandbox.parts |= only_if(SandboxPart::no_capabilities, keep_capabilities(0));
    return sandbox;
  }
  sandbox.parts |= only_if(SandboxPart::system_calls, filter_system_calls(FileRule::allow, nullptr));
  constexpr auto bit = [](int capability) { return uint64_t{1} << capability; };
  const bool dropped =
      keep_capabilities(bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH) | bit(CAP_FOWNER));
  sandbox.parts |= only_if(SandboxPart::no_capabilities, dropped && ::geteuid() != 0);
  return sandbox;
}

std::string sandbox_support() {
  if (::seccomp_api_get() == 0) return "no seccomp";
  return has_listeners() ? "seccomp, files opened by the daemon" : "seccomp, files not opened by the daemon";
}

std::string names_of(SandboxParts parts) {
  std::string names;
  for (const auto& [part, name] :
       {std::pair(SandboxPart::no_new_privileges, "no new privileges"),
        std::pair(SandboxPart::no_capabilities, "no capabilities"), std::pair(SandboxPart::limits, "limits"),
        std::pair(SandboxPart::system_calls, "a filter of system calls"),
        std::pair(SandboxPart::file_calls, "files opened by the daemon")})
    if ((parts & static_cast<uint32_t>(part)) != 0) names += (names.empty() ? "" : ", ") + std::string(name);
  return names.empty() ? "none" : names;
}

}  // namespace codecfs
