#pragma once
// Finding the log of a source under whatever name the source is opened: after `mv`, through another hard link, from a
// copy of the directory.
//
// A mark travels with the source: the extended attribute user.codecfs.log, where the filesystem has such. Its value is
// the identifier of the log (16 hex digits), a space, and the log's absolute path. It is set, and synced, after the log
// was made and before anything is committed in it, and removed, and synced, before the log is: so a mark without a log
// means that the log was lost.
//
// The log is looked for under the source's own log name, then where the mark says, then under the mark's name in the
// source's directory, then among all logs of that directory (kMaxEntries names, kMaxCandidates logs). Only a log whose
// content proves that it belongs to the source is taken (write_log_read.h), and one found under another name only where
// it does not belong to a file of that name just as well: a copy must not take the log of its original.

#include <cstdint>
#include <optional>
#include <string>

#include "backends/hdf5/wal/write_log_read.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

inline constexpr char kLogMark[] = "user.codecfs.log";
inline constexpr size_t kMaxEntries = 4096;
inline constexpr size_t kMaxCandidates = 16;

bool has_log_mark(const File& source);
/// Sets the mark durably. The error of the filesystem; then there is no mark, as far as it can be removed again.
Result<> set_log_mark(FileIo& io, const File& source, uint64_t log_id, const File& log);
/// Removes it durably where there is one.
Result<> remove_log_mark(FileIo& io, const File& source);

struct FoundLog {
  std::optional<CommittedLog> committed;
  /// Where the log is, also where nothing is committed in it. An empty name: there is none.
  File directory;
  std::string name;
  /// The source has a mark and its log was not found: why, and what to do.
  std::optional<Error> missing;
};

/// Errors of read_log().
Result<FoundLog> find_log(const File& directory, const std::string& source_name, const File& source, LogAccess access);

}  // namespace codecfs::hdf5
