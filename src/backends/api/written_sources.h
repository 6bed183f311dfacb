#pragma once
// The sources that this process is writing and that recover_source() would have to repair if it were killed now. They
// are told to an observer, which hands them to a process that survives (mount/watchdog.h).

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// Called from any thread. The descriptors are the caller's; `source` is an O_PATH one, so that it holds no lock and
/// follows the file where that is moved, `log` tells other programs that the source is going to be recovered after
/// our death (-1: there is no log yet). began() may come again for the same source, with another log.
class WritingObserver {
 public:
  virtual ~WritingObserver() = default;
  virtual void began(uint64_t id, int source, int log) = 0;
  virtual void ended(uint64_t id) = 0;
};

/// Null: no observer, as at the beginning. Returns when no call of the observer before is under way.
void observe_writing(WritingObserver* observer);

/// A source that is being written while this lives.
class WrittenSource {
 public:
  WrittenSource() = default;
  /// `source`: any descriptor of it.
  explicit WrittenSource(int source);
  ~WrittenSource() { end(); }
  WrittenSource(const WrittenSource&) = delete;
  WrittenSource& operator=(const WrittenSource&) = delete;

  /// See WritingObserver::began().
  void has_log(UniqueFd log);

 private:
  void tell() const;
  void end();

  uint64_t id_ = 0;
  UniqueFd source_;
  UniqueFd log_;
};

/// In the process that survives: brings what was committed to a source (as in began()) into it, waiting up to a minute
/// for the locks of the dead. Errors of recover_source().
Result<std::string> recover_for_the_dead(int source, int log);

}  // namespace codecfs
