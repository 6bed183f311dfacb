#pragma once
// Recovery by a process that survives the writer of a source (mount/watchdog.h), and how others know of it.
//
// While a source is written, a descriptor of its log with a shared lock on the first byte (F_OFD_SETLK) is open in the
// writer and in the survivor. The exclusive lock on the second byte says that the survivor is at work. So a program
// that finds a log, the first lock, and no writer knows that the recovery is about to begin.

#include <string>

#include "backends/hdf5/wal/write_log.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

/// The log beside an open source, with the first lock. None where there is no log, or the filesystem has no such locks.
UniqueFd mark_log(int source);

/// Waits for a survivor that recovers the source or is about to; a minute at most. Before LoggedFile::open().
void await_survivor(const std::string& path);

/// In the survivor; `source` may be an O_PATH descriptor, `log` is of mark_log(), or -1. Waits a minute at most where
/// the source is locked: the dead may not have let go of it yet. Errors of recover_log().
Result<LogRecovery> recover_as_survivor(int source, int log);

}  // namespace codecfs::hdf5
