#pragma once
// Reads the commits of a write-ahead log, and verifies that it belongs to its source.
//
// The verification compares content, because device and inode numbers change with a reboot or a copy. Before a
// checkpoint the source must have the recorded size, first bytes and mtime, and the recorded content wherever the log
// replaces bytes. During an interrupted checkpoint each replaced piece has its old or its final content; bytes that the
// checkpoint cuts off are ignored. Bytes that the log does not replace are not compared: only the mtime reveals a
// change of them, and nothing does after an interrupted checkpoint.

#include <cstdint>
#include <optional>
#include <string>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// A log with at least one commit.
struct CommittedLog {
  File file;
  LogHeader header;
  Overlay overlay;  // the source as of the last commit; ranges with origin log are at their positions in `file`
  uint64_t transactions = 0;
  uint64_t bytes = 0;     // of payload
  uint64_t sequence = 0;  // of the last commit frame
  uint64_t end = 0;       // position after it
  uint64_t checksum = 0;  // of it
};

enum class LogAccess { read, write };

/// Reads the log of this name and verifies that it belongs to the source in its current state. None if there is no log
/// or it has no commit (for whatever source): such a log may be removed.
/// EUCLEAN: it is damaged or belongs to another state of the source. ENOTSUP: another format version. EPERM: the log of
/// another user, in a directory where all users may create files. Also the errors of opening and reading.
Result<std::optional<CommittedLog>> read_log(const File& directory, const std::string& name, const File& source,
                                             LogAccess access);
/// Reads only the header, without comparing it with a source; none if it cannot be read.
std::optional<LogHeader> read_log_header(const File& directory, const std::string& name);

/// Whether a source has the state that its log, of this path, has recorded. EUCLEAN, with advice.
Result<> check_is_unchanged(const SourceIdentity& then, const SourceIdentity& now, const std::string& log,
                            const File& source);

/// Whether this name exists.
bool log_exists(const File& directory, const std::string& name);

/// Calls `use(first, end)` for the pieces of [offset, end), split at multiples of kSectorBytes.
template <class Use>
void for_each_piece(uint64_t offset, uint64_t end, const Use& use) {
  while (offset < end) {
    const uint64_t until = std::min(end, (offset / kSectorBytes + 1) * kSectorBytes);
    use(offset, until);
    offset = until;
  }
}

}  // namespace codecfs::hdf5
