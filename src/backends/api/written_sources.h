#pragma once
// The sources that this process is writing, which recover_source() would have to repair if the process were killed now.
// An observer passes them to a process that survives this one (mount/watchdog.h).

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// Called from any thread. The caller owns the descriptors. `source` is an O_PATH descriptor, so that it holds no lock
/// and stays valid if the file is moved. The file lock of `log` tells other programs that the source will be recovered
/// if this process dies (-1: there is no log yet). began() may be called again for the same source with another log.
class WritingObserver {
 public:
  virtual ~WritingObserver() = default;
  virtual void began(uint64_t id, int source, int log) = 0;
  virtual void ended(uint64_t id) = 0;
};

/// Sets the observer; null removes it. Returns when no call of the previous observer is running.
void observe_writing(WritingObserver* observer);

/// Registers a source as being written during its lifetime.
class WrittenSource {
 public:
  WrittenSource() = default;
  /// `source`: any descriptor of the source.
  explicit WrittenSource(int source);
  ~WrittenSource() { end(); }
  WrittenSource(const WrittenSource&) = delete;
  WrittenSource& operator=(const WrittenSource&) = delete;

  /// See WritingObserver::began().
  void has_log(UniqueFd log);

 private:
  void notify_observer() const;
  void end();

  uint64_t id_ = 0;
  UniqueFd source_;
  UniqueFd log_;
};

/// For the surviving process: recovers the committed changes of a source (arguments as in began()), and waits up to a
/// minute for the dead process's locks to be released. Errors of recover_source().
Result<std::string> recover_after_crash(int source, int log);

}  // namespace codecfs
