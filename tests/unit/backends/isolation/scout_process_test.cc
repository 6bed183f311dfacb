// The processes in which files are checked: what they inherit, how they end, and what is then known about their end.

#include "backends/isolation/scout_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "backends/isolation/scout_messages.h"
#include "support/processes.h"

namespace codecfs::hdf5 {
namespace {

class ScoutProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    start_fork_server();
    scout_ = start();
  }
  void TearDown() override { scout_.kill(); }

  /// A scout that is ready: it has answered.
  static ScoutProcess start() {
    Result<ScoutProcess> started = start_scout();
    EXPECT_TRUE(started) << started.error().reason;
    if (!started) return {};
    EXPECT_TRUE(answers(*started));
    return *std::move(started);
  }
  static bool answers(const ScoutProcess& scout) {
    ScoutRequest request;
    request.task = ScoutTask::places;
    if (!send_request(scout.socket.get(), request, {}, {})) return false;
    const auto answer = receive_answer(scout.socket.get());
    return answer && !*answer && answer->error().reason == "the file is not open";
  }
  [[nodiscard]] pid_t pid() const { return scout_.trace->pid; }
  [[nodiscard]] std::string proc(const char* file) const { return fmt::format("/proc/{}/{}", pid(), file); }
  /// The socket ends when the scout has ended.
  [[nodiscard]] bool await_end() const {
    pollfd waiting{scout_.socket.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 60'000) == 1 && !receive_answer(scout_.socket.get());
  }

  ScoutProcess scout_;
};

TEST_F(ScoutProcessTest, AnswersUntilItIsKilled) {
  EXPECT_GT(pid(), 0);
  EXPECT_NE(pid(), getpid());
  EXPECT_TRUE(answers(scout_));
  const pid_t process = pid();
  scout_.kill();
  EXPECT_FALSE(scout_.socket);
  EXPECT_TRUE(await([&] { return ::kill(process, 0) != 0; })) << "and is not left a zombie";
  scout_.kill();  // again
}

TEST_F(ScoutProcessTest, EndsWithItsParent) {
  const pid_t process = pid();
  scout_.socket.reset();
  EXPECT_TRUE(await([&] { return ::kill(process, 0) != 0; }));
}

TEST_F(ScoutProcessTest, RecordsTheSignalOfACrash) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGPROF}) {
    scout_ = start();
    EXPECT_EQ(scout_.trace->end, 0);
    ::kill(pid(), signal);
    EXPECT_TRUE(await_end());
    EXPECT_EQ(scout_.trace->end, signal);
  }
}

// The cause is not libhdf5's then.
TEST_F(ScoutProcessTest, RecordsNothingIfAnotherProgramKillsIt) {
  ::kill(pid(), SIGKILL);
  EXPECT_TRUE(await_end());
  EXPECT_EQ(scout_.trace->end, 0);
}

TEST_F(ScoutProcessTest, TheSignalsThatEndTheDaemonDoNotEndIt) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) ::kill(pid(), signal);
  EXPECT_TRUE(answers(scout_));
}

TEST_F(ScoutProcessTest, DoesNotAffectOthers) {
  const ScoutProcess other = start();
  EXPECT_NE(other.trace->pid, pid());
  ::kill(other.trace->pid, SIGSEGV);
  ASSERT_TRUE(await([&] { return other.trace->end != 0; }));
  EXPECT_TRUE(answers(scout_));
  EXPECT_EQ(scout_.trace->end, 0);
}

// Files and mounts of the daemon would stay in use.
TEST_F(ScoutProcessTest, HoldsNothingOfItsParent) {
  std::set<std::string> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(proc("fd")))
    numbers.insert(entry.path().filename().string());
  EXPECT_EQ(numbers, (std::set<std::string>{"0", "1", "2", "4"})) << "/dev/null three times, and the socket";
  for (const char* standard : {"fd/0", "fd/1", "fd/2"})
    EXPECT_EQ(std::filesystem::read_symlink(proc(standard)), "/dev/null");
  EXPECT_EQ(std::filesystem::read_symlink(proc("cwd")), "/");
}

TEST_F(ScoutProcessTest, HasLimits) {
  const std::string limits = text_of(proc("limits"));
  const auto line = [&](const std::string& name) {
    const size_t at = limits.find(name);
    return at == std::string::npos ? "" : limits.substr(at + name.size(), limits.find('\n', at) - at - name.size());
  };
  EXPECT_EQ(std::stoull(line("Max core file size")), 0) << limits;
  // In bytes, in addition to what it has mapped at the start.
  const uint64_t memory = std::stoull(line("Max address space"));
  EXPECT_GE(memory, kScoutMemory) << limits;
  const uint64_t pages = std::stoull(text_of(proc("statm")));
  EXPECT_LE(memory, kScoutMemory + pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace codecfs::hdf5
