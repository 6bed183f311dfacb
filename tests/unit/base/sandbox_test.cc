// What a process can do in the sandbox, and that another one answers its file calls.

#include "base/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "base/fd_passing.h"
#include "base/file_calls.h"
#include "base/worker_process.h"

namespace codecfs {
namespace {

std::string outcome_of(int64_t status) { return status >= 0 ? "ok" : ::strerrorname_np(errno); }

// What no sandbox allows.
std::string attempts() {
  std::string text = "socket " + outcome_of(::socket(AF_UNIX, SOCK_STREAM, 0));
  text += ", fork " + outcome_of(::fork());
  std::array<char*, 1> none{};
  text += ", exec " + outcome_of(::execv("/bin/true", none.data()));
  text += ", kill " + outcome_of(::kill(1, 0));
  text += ", mkdir " + outcome_of(::mkdir("/tmp/codecfs-no-such-directory", 0700));
  text += ", link " + outcome_of(::link("/etc/passwd", "/tmp/codecfs-no-such-link"));
  text += ", chmod " + outcome_of(::chmod("/tmp", 0777));
  return text;
}
constexpr const char* kRefused =
    "socket EPERM, fork EPERM, exec EPERM, kill EPERM, mkdir EPERM, link EPERM, chmod EPERM";

void send_sandbox(int control, const FileSandbox& sandbox, const FileCallEnds& ends) {
  const std::string parts(reinterpret_cast<const char*>(&sandbox.parts), sizeof sandbox.parts);
  if (sandbox.listener)
    (void)send_datagram(control, parts, std::array{sandbox.listener.get(), ends.memory.get(), ends.process.get()});
  else
    (void)send_datagram(control, parts);
}

void run_in_sandbox(int control) {
  const auto ends = FileCallEnds::open();
  if (!ends) return;
  send_sandbox(control, enter_file_sandbox(1024), *ends);
  std::string text = attempts();
  const UniqueFd file(::openat(AT_FDCWD, "given", O_RDONLY | O_CLOEXEC));
  std::array<char, 8> content{};
  text += ", open " + std::string(content.data(), static_cast<size_t>(std::max<ssize_t>(
                                                      ::read(file.get(), content.data(), content.size()), 0)));
  const bool closes = (::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0;
  text += closes ? ", closed on exec" : ", kept on exec";
  struct stat status{};
  text += ", stat " + outcome_of(::lstat("/some/where", &status));
  text += " " + std::to_string(status.st_size);
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink("link", target.data(), target.size());
  text += ", readlink " + std::string(target.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  text += ", rename " + outcome_of(::rename("one", "other"));
  text += ", flock " + outcome_of(::flock(file.get(), LOCK_SH));
  text += ", bad address " + outcome_of(::open(reinterpret_cast<const char*>(8), O_RDONLY));
  text += ", fstat " + outcome_of(::fstat(file.get(), &status));
  (void)send_datagram(control, text);
}

struct Seen {
  SandboxParts parts = 0;
  std::string text;
  std::string calls;
};

Seen run(WorkerMain main, const std::function<FileAnswer(const FileCall&)>& answer) {
  Seen seen;
  auto worker = start_worker(main);
  if (!worker) return seen;
  Datagram first = receive_datagram(worker->control.get(), 16);
  if (first.bytes.size() != sizeof seen.parts) return seen;
  std::memcpy(&seen.parts, first.bytes.data(), sizeof seen.parts);
  std::optional<FileCalls> calls;
  if (first.fds.size() == 3)
    calls.emplace(std::move(first.fds[0]), FileCallEnds{std::move(first.fds[1]), std::move(first.fds[2])});
  for (;;) {
    std::array<pollfd, 2> events{{{worker->control.get(), POLLIN, 0}, {calls ? calls->listener() : -1, POLLIN, 0}}};
    constexpr int kMax = 20'000;  // milliseconds
    if (::poll(events.data(), events.size(), kMax) <= 0 || events[0].revents != 0) break;
    while (const auto call = calls->receive()) {
      seen.calls += call->path + " ";
      calls->answer(*call, answer(*call));
    }
  }
  seen.text = receive_datagram(worker->control.get(), 1024).bytes;
  return seen;
}

TEST(Sandbox, FileCallsAreAnswered) {
  const auto answer = [](const FileCall& call) -> FileAnswer {
    switch (call.kind) {
      case FileCall::Kind::open: {
        UniqueFd file(::memfd_create("test", 0));
        EXPECT_EQ(::pwrite(file.get(), "content", 7, 0), 7);
        return {.fd = std::move(file)};
      }
      case FileCall::Kind::status: {
        EXPECT_EQ(call.flags, static_cast<uint32_t>(AT_SYMLINK_NOFOLLOW));
        struct stat status{};
        status.st_size = 4711;
        return {.bytes = std::string(reinterpret_cast<const char*>(&status), sizeof status)};
      }
      case FileCall::Kind::read_link: return {.value = 6, .bytes = "target"};
      case FileCall::Kind::rename: EXPECT_EQ(call.to_path, "other"); return {.error = EXDEV};
      default: return {.is_continued = true};
    }
  };
  const Seen seen = run(run_in_sandbox, answer);
  if ((seen.parts & static_cast<uint32_t>(SandboxPart::file_calls)) == 0) GTEST_SKIP() << names_of(seen.parts);
  EXPECT_EQ(seen.parts, kWholeFileSandbox);
  EXPECT_EQ(seen.text, std::string(kRefused) +
                           ", open content, closed on exec, stat ok 4711, readlink target, rename EXDEV, flock ok, "
                           "bad address EFAULT, fstat ok");
  EXPECT_EQ(seen.calls, "given /some/where link one  ");
}

// A container may have a listener of its own; there can be only one.
void run_beside_another_listener(int control) {
  const auto ends = FileCallEnds::open();
  sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program{1, &all};
  if (!ends || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) < 0)
    return;
  send_sandbox(control, enter_file_sandbox(1024), *ends);
  (void)send_datagram(control, attempts() + ", open " + outcome_of(::open("/etc/passwd", O_RDONLY)));
}

TEST(Sandbox, GoesOnWithoutAListener) {
  const Seen seen = run(run_beside_another_listener, [](const FileCall&) { return FileAnswer{.error = EIO}; });
  EXPECT_EQ(seen.parts & static_cast<uint32_t>(SandboxPart::file_calls), 0U);
  EXPECT_NE(seen.parts & static_cast<uint32_t>(SandboxPart::system_calls), 0U) << names_of(seen.parts);
  EXPECT_EQ(seen.text, std::string(kRefused) + ", open ok");
}

void run_without_files(int control) {
  const SandboxParts parts = enter_sandbox(64);
  (void)send_datagram(control, std::string(reinterpret_cast<const char*>(&parts), sizeof parts));
  (void)send_datagram(control, attempts() + ", open " + outcome_of(::open("/etc/passwd", O_RDONLY)));
}

TEST(Sandbox, NoFiles) {
  const Seen seen = run(run_without_files, [](const FileCall&) { return FileAnswer{}; });
  EXPECT_EQ(seen.parts, kWholeSandbox) << names_of(seen.parts);
  EXPECT_EQ(seen.text, std::string(kRefused) + ", open EPERM");
}

TEST(Sandbox, Names) {
  EXPECT_EQ(names_of(0), "none");
  EXPECT_EQ(names_of(kWholeFileSandbox & ~kWholeSandbox), "files opened by the daemon");
  EXPECT_NE(sandbox_support(), "");
}

}  // namespace
}  // namespace codecfs
