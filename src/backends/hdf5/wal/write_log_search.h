#pragma once
// Finds the log of a source under whatever name the source is opened: after `mv`, through another hard link, in a copy
// of the directory.
//
// A mark moves with the source: the extended attribute user.codecfs.log, if the filesystem supports it. Its value is
// the identifier of the log (16 hex digits), a space, and the log's absolute path. It is set and synced after the log
// is created and before the first commit; it is removed and synced before the log is removed. So a mark without a log
// means that the log was lost.
//
// The search order: the source's own log name, the path in the mark, the file name of that path in the source's
// directory, all logs of that directory (log_directories.h). A log is used only if its content
// proves that it belongs to the source (write_log_read.h). A log found under another name must also not belong to an
// existing file of that name: a copy must not use the log of its original.

#include <cstdint>
#include <optional>
#include <string>

#include "backends/hdf5/wal/write_log_read.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

inline constexpr char kLogMark[] = "user.codecfs.log";

bool has_log_mark(const File& source);
/// The path of the log that the mark names. Empty if there is no mark, or it is damaged. `source`: a descriptor.
std::string marked_log(int source);
/// Sets the mark durably. On an error (of the filesystem) tries to remove it again.
Result<> set_log_mark(FileIo& io, const File& source, uint64_t log_id, const File& log);
/// Removes the mark durably if there is one.
Result<> remove_log_mark(FileIo& io, const File& source);

struct FoundLog {
  std::optional<CommittedLog> committed;
  /// The directory of the log, even if the log has no commit. An empty name: there is no log.
  File directory;
  std::string name;
  /// Set if the source has a mark and its log was not found: why, and what to do.
  std::optional<Error> missing;
};

/// Errors of read_log().
Result<FoundLog> find_log(const File& directory, const std::string& source_name, const File& source, LogAccess access);

}  // namespace codecfs::hdf5
