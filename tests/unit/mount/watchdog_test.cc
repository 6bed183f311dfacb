// What survives a killed daemon. The daemons are forked children; their watchdogs are this program, executed again,
// which main() below recognises as that of codecfs does.

#include "mount/watchdog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "backends/hdf5/wal/survivor.h"
#include "base/log.h"
#include "support/fake_mounts.h"
#include "support/processes.h"
#include "support/write_log_testing.h"

namespace codecfs::mount {
namespace {

using namespace write_log_testing;
using hdf5::LoggedFile;
using Clock = std::chrono::steady_clock;

constexpr const char* kNoMount = "/no/mount";

// --- /proc

/// A field of /proc/PID/stat after the name: 0 is the state, 1 the parent, 3 the session. Empty: the process is gone.
std::string status_field(const std::string& process, size_t number) {
  const std::string text = text_of("/proc/" + process + "/stat");
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string field;
  for (size_t i = 0; i <= number; ++i)
    if (!(fields >> field)) return {};
  return field;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }) &&
        status_field(name, 1) == std::to_string(parent))
      children.push_back(std::stoi(name));
  }
  return children;
}

std::set<std::string> open_files_of(pid_t process) {
  std::set<std::string> files;
  std::error_code error;
  const std::filesystem::path folder = fmt::format("/proc/{}/fd", process);
  for (auto entry = std::filesystem::directory_iterator(folder, error); !error && entry != end(entry);
       entry.increment(error)) {
    std::error_code gone;
    files.insert(std::filesystem::read_symlink(entry->path(), gone).string());
  }
  return files;
}

// --- daemons

/// A forked process that runs `work` and then waits to be killed.
class Daemon {
 public:
  explicit Daemon(const std::function<void()>& work) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    UniqueFd input(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(input.get(), STDERR_FILENO);
    input.reset();
    output_.reset();
    work();
    for (;;) ::pause();
  }
  ~Daemon() { kill_and_await_watchdog(); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The reason of the end is the kernel's: no destructor runs.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Reads what the daemon and its watchdog write to stderr until the text appears. False if both ended before.
  bool await_output(const std::string& text) {
    return read_output([&] { return output().find(text) != std::string::npos; });
  }
  /// Kills the daemon and waits for the end of its watchdog.
  void kill_and_await_watchdog() {
    kill();
    read_output([] { return false; });
  }
  [[nodiscard]] const std::string& output() const { return text_; }

 private:
  bool read_output(const std::function<bool()>& enough) {
    while (!enough()) {
      pollfd waiting{output_.get(), POLLIN, 0};
      char part[4096];
      const ssize_t size = ::poll(&waiting, 1, 60'000) == 1 ? ::read(output_.get(), part, sizeof part) : -1;
      EXPECT_GE(size, 0) << "neither output nor the end within a minute";
      if (size <= 0) return false;
      text_.append(part, static_cast<size_t>(size));
    }
    return true;
  }

  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
};

/// A source that is written, as an HDF5 source does it.
struct Writer {
  explicit Writer(const std::filesystem::path& source) : file(*LoggedFile::open(source)), written(file->fd()) {
    if (!file->begin_writing()) std::abort();
    written.has_log(hdf5::mark_log(file->fd()));
  }
  void commit(uint64_t offset, const Content& bytes) const {
    if (!file->write(offset, bytes) || !file->commit()) std::abort();
  }
  std::unique_ptr<LoggedFile> file;
  WrittenSource written;
};

class WatchdogTest : public LoggedSource {
 protected:
  /// The watchdog of a daemon, once it knows the source.
  pid_t watchdog_of(const Daemon& daemon) const {
    pid_t found = 0;
    EXPECT_TRUE(await([&] {
      for (const pid_t child : children_of(daemon.pid()))
        if (text_of(fmt::format("/proc/{}/comm", child)) == std::string(kWatchdogName).substr(0, 15) + "\n" &&
            open_files_of(child).contains(source_.string()))
          found = child;
      return found != 0;
    }));
    return found;
  }
  /// Writes, commits, writes something that is not committed, and reports "written".
  void write_as_daemon() const {
    const Writer writer(source_);
    writer.commit(100, kCommitted);
    if (!writer.file->write(5000, kCommitted)) std::abort();
    fmt::print(stderr, "written\n");
    for (;;) ::pause();
  }
  void run_daemon(const std::string& log = "stderr") const {
    const Watchdog watchdog(kNoMount, source_, true, log);
    write_as_daemon();
  }
  [[nodiscard]] Content committed() const {
    Content content = before_;
    overwrite(content, 100, kCommitted);
    return content;
  }
  [[nodiscard]] std::string recovery_of(pid_t daemon) const {
    return fmt::format("after the death of process {}: {}: 1 committed change was recovered", daemon, source_.string());
  }

  const Content kCommitted = noise(300, 7);
};

TEST_F(WatchdogTest, TheCommitsOfAKilledDaemonAreRecovered) {
  Daemon daemon([&] { run_daemon(); });
  const pid_t pid = daemon.pid();
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  EXPECT_TRUE(std::filesystem::exists(log_));
  EXPECT_TRUE(content_of(source_) == before_);
  daemon.kill_and_await_watchdog();
  EXPECT_TRUE(content_of(source_) == committed());
  EXPECT_FALSE(std::filesystem::exists(log_));
  EXPECT_NE(daemon.output().find(recovery_of(pid)), std::string::npos) << daemon.output();
}

TEST_F(WatchdogTest, AllWrittenSourcesAreRecoveredAndNoOthers) {
  const std::filesystem::path second = directory_ / "second.h5";
  const std::filesystem::path finished = directory_ / "finished.h5";
  for (const auto& path : {second, finished}) store(path, before_);
  Daemon daemon([&] {
    const Watchdog watchdog(kNoMount, source_, true, "stderr");
    const Writer one(source_);
    const Writer two(second);
    one.commit(100, kCommitted);
    two.commit(100, kCommitted);
    {
      const Writer three(finished);
      three.commit(100, kCommitted);
      if (!three.file->finish()) std::abort();
    }
    fmt::print(stderr, "written\n");
    for (;;) ::pause();
  });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  daemon.kill_and_await_watchdog();
  EXPECT_TRUE(content_of(source_) == committed());
  EXPECT_TRUE(content_of(second) == committed());
  EXPECT_EQ(daemon.output().find("finished.h5"), std::string::npos) << daemon.output();
}

TEST_F(WatchdogTest, ASourceIsRecoveredWhereItWasMoved) {
  const std::filesystem::path moved = directory_ / "moved.h5";
  Daemon daemon([&] {
    const Watchdog watchdog(kNoMount, source_, true, "stderr");
    const Writer writer(source_);
    std::filesystem::rename(source_, moved);
    writer.commit(100, kCommitted);
    fmt::print(stderr, "written\n");
    for (;;) ::pause();
  });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  daemon.kill_and_await_watchdog();
  EXPECT_TRUE(content_of(moved) == committed()) << daemon.output();
}

TEST_F(WatchdogTest, ALogThatCannotBeUsedIsReported) {
  Daemon daemon([&] { run_daemon(); });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  std::fstream(log_, std::ios::binary | std::ios::in | std::ios::out) << "no log of ours";
  daemon.kill_and_await_watchdog();
  EXPECT_NE(daemon.output().find("; codecfs recover brings in what was written"), std::string::npos) << daemon.output();
  EXPECT_TRUE(content_of(source_) == before_);
  EXPECT_TRUE(std::filesystem::exists(log_));
}

TEST_F(WatchdogTest, AfterANormalEndNothingIsRecovered) {
  {
    const Watchdog watchdog(kNoMount, source_, true, "stderr");
    EXPECT_EQ(children_of(getpid()).size(), 1);
    const Writer writer(source_);
    writer.commit(100, kCommitted);
  }
  EXPECT_TRUE(children_of(getpid()).empty());
  EXPECT_TRUE(content_of(source_) == before_);
  EXPECT_TRUE(std::filesystem::exists(log_));
}

TEST_F(WatchdogTest, AKilledOneIsReplacedByAnotherThatKnowsTheSources) {
  Daemon daemon([&] { run_daemon(); });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  const pid_t first = watchdog_of(daemon);
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(daemon.await_output("was killed: another is started")) << daemon.output();
  EXPECT_NE(watchdog_of(daemon), first);
  daemon.kill_and_await_watchdog();
  EXPECT_TRUE(content_of(source_) == committed()) << daemon.output();
}

// The signals of a terminal or a service manager go to all processes of the daemon.
TEST_F(WatchdogTest, SignalsDoNotEndIt) {
  Daemon daemon([&] { run_daemon(); });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  const pid_t watchdog = watchdog_of(daemon);
  ASSERT_GT(watchdog, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) ::kill(watchdog, signal);
  daemon.kill_and_await_watchdog();
  EXPECT_TRUE(content_of(source_) == committed()) << daemon.output();
}

// What it kept open could not be unmounted, or would stay locked.
TEST_F(WatchdogTest, HoldsNothingOfTheDaemonButTheSource) {
  const std::filesystem::path other = directory_ / "other";
  store(other, before_);
  Daemon daemon([&] {
    [[maybe_unused]] const int inherited = ::open(other.c_str(), O_RDONLY);
    std::filesystem::current_path(directory_);
    run_daemon();
  });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  const pid_t watchdog = watchdog_of(daemon);
  ASSERT_GT(watchdog, 0);
  ASSERT_TRUE(open_files_of(daemon.pid()).contains(other));
  EXPECT_FALSE(open_files_of(watchdog).contains(other));
  std::error_code error;
  EXPECT_EQ(std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", watchdog), error), "/");
  EXPECT_EQ(status_field(std::to_string(watchdog), 3), std::to_string(watchdog)) << "its own session";
}

TEST_F(WatchdogTest, ItsArgumentsNameTheDaemonTheLogAndTheSource) {
  Daemon daemon([&] { run_daemon(); });
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  const pid_t watchdog = watchdog_of(daemon);
  std::string words = text_of(fmt::format("/proc/{}/cmdline", watchdog));
  std::ranges::replace(words, '\0', ' ');
  EXPECT_EQ(words, fmt::format("codecfs-watchdog {} stderr {} ", daemon.pid(), source_.string()));
}

TEST_F(WatchdogTest, WritesToTheLogFileOfTheDaemon) {
  const std::filesystem::path messages = directory_ / "messages";
  Daemon daemon([&] { run_daemon(messages); });
  const pid_t pid = daemon.pid();
  ASSERT_TRUE(daemon.await_output("written")) << daemon.output();
  ASSERT_GT(watchdog_of(daemon), 0);
  daemon.kill();
  EXPECT_TRUE(await([&] { return text_of(messages).find(recovery_of(pid)) != std::string::npos; }));
}

TEST_F(WatchdogTest, AReadOnlyMountHasOneOnlyToAbortTheConnection) {
  FakeMounts mounts;
  const std::string place = directory_.string();
  const Watchdog without_mount(place, source_, false, "stderr");
  EXPECT_TRUE(children_of(getpid()).empty());
  // No connection has this number.
  mounts.table.push_back({40, "0:4294967295", place, "fuse.codecfs"});
  const Watchdog without_access(place, source_, false, "stderr");
  EXPECT_TRUE(children_of(getpid()).empty());
  EXPECT_NE(log::recent().find("no access to /sys/fs/fuse/connections/ ("), std::string::npos);
}

TEST_F(WatchdogTest, IsNotStartedByHand) {
  char name[] = "codecfs-watchdog";
  char word[] = "x";
  char* few[] = {name, nullptr};
  char* no_process[] = {name, word, word, word, nullptr};
  EXPECT_EQ(run_watchdog(1, few), 1);
  EXPECT_EQ(run_watchdog(4, no_process), 1);
}

}  // namespace
}  // namespace codecfs::mount

int main(int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]) == codecfs::mount::kWatchdogName)
    return codecfs::mount::run_watchdog(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
