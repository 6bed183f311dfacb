#pragma once
// Recovery by a process that survives the writer of a source (mount/watchdog.h), and the locks that announce it to
// other programs.
//
// While a source is written, the writer and the survivor share an open descriptor of its log with a shared lock on the
// first byte (F_OFD_SETLK). The survivor takes the exclusive lock on the second byte while it recovers. So a program
// that finds a log and the first lock, but no writer, knows that a recovery is about to begin.

#include <string>

#include "backends/hdf5/wal/write_log.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

/// Opens the log beside an open source and takes the first lock. None if there is no log or the filesystem does not
/// support such locks.
UniqueFd mark_log(int source);

/// Waits, at most a minute, for a survivor that recovers the source or is about to. Must be called before
/// LoggedFile::open(). `path`: as realpath(3) returns it.
void await_survivor(const std::string& path);

/// For the survivor. `source` may be an O_PATH descriptor; `log` is the result of mark_log(), or -1. Waits at most a
/// minute for the lock of the source, which the dead process may not have released yet. Errors of recover_log().
Result<LogRecovery> recover_as_survivor(int source, int log);

}  // namespace codecfs::hdf5
