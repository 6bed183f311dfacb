#pragma once
// What has to be done when the daemon is killed, by a process that survives it: codecfs itself, executed as
// `codecfs-watchdog`, a child of the daemon in a session of its own.
//
//   1. The connection is aborted (/sys/fs/fuse/connections/N/abort, where there is access to it). The kernel answers
//      all requests with errors when the last thread of a daemon is gone. But a thread that has given the kernel a
//      notice may wait in there, beyond the reach of any signal, for a lock that a client holds while it waits for the
//      daemon: then that never happens, and both wait for ever.
//   2. What was committed to the sources that were being written is brought into them, so that other programs find
//      whole files. The daemon hands over a descriptor of each while it is written (backends/written_sources.h).
//
// The child learns of the death of the thread that has forked it (PR_SET_PDEATHSIG), which a stuck thread cannot delay,
// and holds no lock, mount or directory of the daemon's. That thread waits for the child: where the child is killed
// alone, it starts another.

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "backends/api/written_sources.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

class Watchdog final : public WritingObserver {
 public:
  /// `writes`: sources may be written; otherwise there is only the connection to abort. `log`: where the child's
  /// messages go: "stderr", "syslog", or a file. `source`: what is mounted, for ps(1).
  Watchdog(const std::string& mountpoint, std::string source, bool writes, std::string log);
  /// The daemon ends by itself, and so does the child, without doing anything.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void began(uint64_t id, int source, int log) override;
  void ended(uint64_t id) override;

 private:
  struct Written {
    UniqueFd source;
    UniqueFd log;
  };

  void run();
  bool start();
  void tell(uint64_t id, const Written& written) const;

  const std::string source_;
  const std::string log_;
  UniqueFd abort_;
  std::mutex mutex_;  // of what follows
  std::condition_variable started_;
  std::map<uint64_t, Written> written_;
  UniqueFd socket_;  // to the child
  pid_t child_ = -1;
  bool stopped_ = false;
  bool is_started_ = false;  // or cannot be
  std::thread thread_;
};

/// The child: main() of a program that is called so.
inline constexpr const char* kWatchdogName = "codecfs-watchdog";
int run_watchdog(int argc, char** argv);

}  // namespace codecfs::mount
