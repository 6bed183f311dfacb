#include "mount/limited_calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/close_from.h"
#include "base/unique_fd.h"

namespace codecfs::mount {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kEnd = '\0';  // after the text, which has none

struct Child {
  UniqueFd answer;  // none: ended
  pid_t process = -1;
  Result<std::string> text = std::string();
};

[[noreturn]] void run_child(int answer, const std::function<std::string()>& call) {
  constexpr int kAnswer = 3;
  if (answer != kAnswer) dup2(answer, kAnswer);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2})
    if (null < 0 || dup2(null, fd) < 0) _exit(EXIT_FAILURE);
  close_from(kAnswer + 1);
  try {
    const std::string text = call() + kEnd;
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = write(kAnswer, text.data() + sent, text.size() - sent);
      if (count <= 0) _exit(EXIT_FAILURE);
      sent += static_cast<size_t>(count);
    }
  } catch (...) {
    _exit(EXIT_FAILURE);
  }
  _exit(EXIT_SUCCESS);
}

Child start(const std::function<std::string()>& call) {
  Child child;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    child.text = fail_errno(errno, "a pipe");
    return child;
  }
  UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  child.process = fork();
  if (child.process == 0) run_child(to.get(), call);
  if (child.process < 0)
    child.text = fail_errno(errno, "a process");
  else
    child.answer = std::move(from);
  return child;
}

void receive(Child& child) {
  std::array<char, 4096> part{};
  const ssize_t count = read(child.answer.get(), part.data(), part.size());
  if (count < 0 && errno == EINTR) return;
  if (count > 0) {
    child.text->append(part.data(), static_cast<size_t>(count));
    return;
  }
  child.answer.reset();
  if (child.text->ends_with(kEnd))
    child.text->pop_back();
  else
    child.text = fail(EIO, "its process ended");
}

}  // namespace

std::vector<Result<std::string>> call_with_limit(const std::vector<std::function<std::string()>>& calls,
                                                 std::chrono::milliseconds limit) {
  std::vector<Child> children;
  children.reserve(calls.size());
  for (const auto& call : calls) children.push_back(start(call));
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    std::vector<pollfd> events;
    std::vector<Child*> waiting;
    for (Child& child : children) {
      if (!child.answer) continue;
      events.push_back({child.answer.get(), POLLIN, 0});
      waiting.push_back(&child);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (events.empty()) break;
    const int count = poll(events.data(), events.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    for (size_t i = 0; count > 0 && i < events.size(); ++i)
      if (events[i].revents != 0) receive(*waiting[i]);
    if (count == 0) break;
  }
  std::vector<Result<std::string>> texts;
  for (Child& child : children) {
    // The kernel may not end the child before the mount answers: it is not waited for.
    if (child.answer)
      child.text = fail(ETIMEDOUT, "no answer within {} s", std::chrono::duration<double>(limit).count());
    if (child.process > 0 && child.answer) kill(child.process, SIGKILL);
    if (child.process > 0) waitpid(child.process, nullptr, child.answer ? WNOHANG : 0);
    texts.push_back(std::move(child.text));
  }
  return texts;
}

}  // namespace codecfs::mount
