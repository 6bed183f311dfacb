// credential_process: a program that prints credentials.
// Source: "AWS SDKs and Tools Reference Guide", process credential provider.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/ascii.h"
#include "base/terminal_text.h"
#include "base/unique_fd.h"
#include "model/json.h"
#include "remote/credential_answers.h"
#include "remote/credential_places.h"

namespace codecfs::remote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kProcessTime{30};
constexpr size_t kMaxProcessOutput = size_t{64} << 10;

/// A running program in its own process group; the destructor kills what is left of it.
class Program {
 public:
  /// Starts the program. Its output goes to `output`; it reads nothing, and its messages go where ours go. Returns an
  /// errno, 0: it runs.
  int start(const std::vector<std::string>& arguments, int output) {
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (const int error = posix_spawn_file_actions_init(&actions)) return error;
    if (const int error = posix_spawnattr_init(&attributes)) {
      posix_spawn_file_actions_destroy(&actions);
      return error;
    }
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    // In this order, because `output` may be 0.
    int error = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawnp(&pid_, pointers[0], &actions, &attributes, pointers.data(), environ);
    if (error != 0) pid_ = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }

  ~Program() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// The status of waitpid. None if it has not ended in time. A status that another thread has taken counts as 0.
  std::optional<int> await_end(Clock::time_point end) {
    while (true) {
      int status = 0;
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_ || (ended < 0 && errno != EINTR)) {
        pid_ = 0;
        return ended > 0 ? status : 0;
      }
      if (Clock::now() >= end) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  pid_t pid_ = 0;
};

/// All that arrives until the end of the file.
Result<std::string> read_output(int fd, Clock::time_point end, const std::string& place) {
  std::string output;
  std::array<char, 4096> block;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    struct pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return fail(EACCES, "{} has not ended after {} s", place, kProcessTime.count());
    const ssize_t count = ready < 0 ? -1 : ::read(fd, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(EACCES, "{}: its output cannot be read", place);
    if (count == 0) return output;
    output.append(block.data(), static_cast<size_t>(count));
    if (output.size() > kMaxProcessOutput) {
      return fail(EACCES, "{} prints more than {} bytes", place, kMaxProcessOutput);
    }
  }
}

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool is_in_word = false;
  char quote = '\0';
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const char next = i + 1 < command.size() ? command[i + 1] : '\0';
    if (quote != '\0' && c == quote) {
      quote = '\0';
    } else if (quote == '"' && c == '\\' && (next == '"' || next == '\\')) {
      word += command[++i];
    } else if (quote != '\0') {
      word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_in_word = true;
    } else if (c == '\\') {
      if (i + 1 == command.size()) return fail(EINVAL, "the command ends with a backslash");
      word += command[++i];
      is_in_word = true;
    } else if (kAsciiSpaces.contains(c)) {
      if (is_in_word) words.push_back(std::move(word));
      word.clear();
      is_in_word = false;
    } else {
      word += c;
      is_in_word = true;
    }
  }
  if (quote != '\0') return fail(EINVAL, "a quotation in the command does not end");
  if (is_in_word) words.push_back(std::move(word));
  return words;
}

Result<ProcessOutput> run_credential_process(const std::string& command) {
  const Result<std::vector<std::string>> arguments = split_command(command);
  if (!arguments) return fail(EACCES, "credential_process: {}", arguments.error().reason);
  if (arguments->empty()) return fail(EACCES, "credential_process names no program");
  // The arguments may hold secrets.
  std::string place = fmt::format("credential_process '{}'", printable(arguments->front()));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "{} cannot be started", place);
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  const auto end = Clock::now() + kProcessTime;
  Program program;
  if (const int error = program.start(*arguments, input.get())) {
    return fail_errno(error, "{} cannot be started", place);
  }
  input.reset();
  CODECFS_ASSIGN(std::string text, read_output(output.get(), end, place));
  const std::optional<int> status = program.await_end(end);
  if (!status) return fail(EACCES, "{} has not ended after {} s", place, kProcessTime.count());
  if (WIFSIGNALED(*status)) return fail(EACCES, "{} was killed by signal {}", place, WTERMSIG(*status));
  if (WEXITSTATUS(*status) != 0) {
    return fail(EACCES, "{} fails with exit status {}: run it in a terminal to see why", place, WEXITSTATUS(*status));
  }
  return ProcessOutput{.text = std::move(text), .place = std::move(place)};
}

Result<Credentials> process_credentials(const std::string& command) {
  CODECFS_ASSIGN(const ProcessOutput output, run_credential_process(command));
  const auto& [text, place] = output;
  const Result<Json> parsed = parse_json(text);
  const bool has_version = parsed && parsed->is_object() && parsed->contains("Version") &&
                           parsed->at("Version").is_number_integer() && parsed->at("Version") == 1;
  if (!has_version) return fail(EACCES, "{} does not print a JSON object with Version 1", place);
  return parse_credentials(text, "SessionToken", place);
}

}  // namespace codecfs::remote
