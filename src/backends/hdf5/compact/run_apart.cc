#include "backends/hdf5/compact/run_apart.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/unique_fd.h"

namespace codecfs::hdf5 {
namespace {

constexpr int kPollMilliseconds = 100;
constexpr int kDone = 0;
constexpr int kFailed = 1;  // the pipe has the errno value and the reason

Result<> guarded(const std::function<Result<>()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "not enough memory");
  } catch (const std::exception& error) {
    return fail(EIO, "{}", error.what());
  }
}

void send(int fd, const void* bytes, size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t count = ::write(fd, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    at += count;
    size -= static_cast<size_t>(count);
  }
}

// Exits without static destructors: libhdf5's would continue work that failed.
[[noreturn]] void be_child(int fd, const std::function<Result<>()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const Result<> done = guarded(work);
  if (done) ::_exit(kDone);
  send(fd, &done.error().code, sizeof done.error().code);
  send(fd, done.error().reason.data(), done.error().reason.size());
  ::_exit(kFailed);
}

std::string receive_all(int fd) {
  std::string all;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t count = ::read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return all;
    all.append(part.data(), static_cast<size_t>(count));
  }
}

/// Waits until there is something to read. False: cancelled.
bool await_answer(int fd, const std::function<bool()>& cancelled) {
  pollfd answer{.fd = fd, .events = POLLIN, .revents = 0};
  while (cancelled) {
    if (cancelled()) return false;
    const int count = ::poll(&answer, 1, kPollMilliseconds);
    if (count > 0 || (count < 0 && errno != EINTR)) break;
  }
  return true;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<> run_apart(const std::function<Result<>()>& work, const std::function<bool()>& cancelled) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "a pipe");
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "a process of its own");
  if (child == 0) be_child(to.get(), work);
  to.reset();
  if (!await_answer(from.get(), cancelled)) {
    ::kill(child, SIGKILL);
    wait_for(child);
    return fail(ECANCELED, "interrupted");
  }
  const std::string answer = receive_all(from.get());
  const int status = wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) return {};
  int code = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != kFailed || answer.size() < sizeof code)
    return fail(EIO, "libhdf5 does not survive reading it, which happens with damaged files ({})",
                WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : "it ended the process");
  std::memcpy(&code, answer.data(), sizeof code);
  return fail(code, "{}", answer.substr(sizeof code));
}

}  // namespace codecfs::hdf5
