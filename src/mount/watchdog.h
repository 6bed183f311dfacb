#pragma once
// Cleans up after the daemon if it is killed. The watchdog is a process that survives the daemon: codecfs itself,
// executed as `codecfs-watchdog`, a child of the daemon in its own session.
//
//   1. It aborts the FUSE connection (/sys/fs/fuse/connections/N/abort, if accessible), so that clients do not hang.
//   The kernel fails all requests only when the last thread of the daemon has exited. A thread that sends a
//   notification may be blocked in the kernel, uninterruptibly, on a lock that a client holds while it waits for the
//   daemon: a deadlock that only the abort resolves.
//   2. It recovers the sources that were being written, so that other programs find complete files. The daemon sends a
//   descriptor of each source while it writes it (backends/api/written_sources.h).
//
// The child is notified when the thread that forked it dies (PR_SET_PDEATHSIG), which a blocked thread does not delay,
// and holds no lock, mount or directory of the daemon. That thread waits for the child, and starts another if the child
// alone is killed.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "backends/api/written_sources.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

class Watchdog final : public WritingObserver {
 public:
  /// `writes`: sources may be written; otherwise the watchdog only aborts the connection. `log`: target of its
  /// messages: "stderr", "syslog", or a file. `source`: the mounted source, for ps(1).
  Watchdog(const std::string& mountpoint, std::string source, bool writes, std::string log);
  /// Ends the child without any cleanup, as the daemon exits normally.
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
  void send(uint64_t id, const Written& written) const CODECFS_REQUIRES(mutex_);

  const std::string source_;
  const std::string log_;
  UniqueFd abort_;
  Mutex mutex_;
  ConditionVariable started_;
  std::map<uint64_t, Written> written_ CODECFS_GUARDED_BY(mutex_);
  UniqueFd socket_ CODECFS_GUARDED_BY(mutex_);  // to the child
  pid_t child_ CODECFS_GUARDED_BY(mutex_) = -1;
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
  bool is_started_ CODECFS_GUARDED_BY(mutex_) = false;  // or cannot be started
  std::thread thread_;
};

/// The name under which main() runs the child.
inline constexpr const char* kWatchdogName = "codecfs-watchdog";
int run_watchdog(int argc, char** argv);

}  // namespace codecfs::mount
