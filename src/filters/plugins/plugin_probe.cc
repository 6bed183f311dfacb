// The child is forked from a multithreaded process, so another thread may have held a lock of libhdf5 or another
// library at the fork, which then stays locked. glibc handles its own locks (malloc, the loader); the time limit covers
// the rest.

#include "filters/plugins/plugin_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "base/unique_fd.h"
#include "filters/plugins/plugin_library.h"

namespace codecfs::filters {
namespace {

void load_one(const std::string& path) {
  const Result<PluginLibrary> plugin = open_plugin(path, path);
  if (!plugin) return;
  for (const auto* codecs : {&plugin->codecs, &plugin->defaults})
    for (const NCZ_codec_t& codec : *codecs)
      if (codec.NCZ_codec_initialize != nullptr) codec.NCZ_codec_initialize();
}

/// Writes one byte for each library that did not crash.
[[noreturn]] void run_child(std::span<const std::string> paths, int report, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM})
    std::signal(signal, SIG_DFL);
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) dup2(nowhere, standard);
  for (const std::string& path : paths) {
    load_one(path);
    if (write(report, "+", 1) != 1) break;
  }
  _exit(0);
}

/// Reads the child's bytes until it ends (true) or exceeds the time limit for one of them.
bool read_report(int report, std::chrono::milliseconds limit, size_t& survived) {
  for (;;) {
    pollfd waiting{report, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(limit.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    std::array<char, 64> bytes;
    const ssize_t count = read(report, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    survived += static_cast<size_t>(count);
  }
}

}  // namespace

std::vector<std::string> probe_plugins(std::span<const std::string> paths, std::chrono::milliseconds limit) {
  std::vector<std::string> fates(paths.size());
  for (size_t next = 0; next < paths.size(); ++next) {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return fates;
    UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) return fates;
    if (child == 0) run_child(paths.subspan(next), writing.get(), parent);
    writing = UniqueFd();

    size_t survived = 0;
    const bool ended = read_report(reading.get(), limit, survived);
    if (!ended) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    next += survived;
    if (next >= paths.size()) break;
    if (!ended)
      fates[next] = fmt::format("did not finish loading within {} s", static_cast<double>(limit.count()) / 1000.0);
    else if (WIFSIGNALED(status))
      fates[next] = fmt::format("crashes while it is loaded ({})", strsignal(WTERMSIG(status)));
    else
      fates[next] = "ends the process while it is loaded";
  }
  return fates;
}

}  // namespace codecfs::filters
