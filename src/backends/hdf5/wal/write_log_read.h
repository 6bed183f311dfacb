#pragma once
// Reading a write-ahead log: what was committed in it, and the proof that it belongs to its source.
//
// The proof is by content, because device and inode numbers change with a reboot or a copy. Before a checkpoint the
// source has the recorded size, its first bytes and all bytes that the log replaces are as recorded, and so is its time
// of modification. In a checkpoint that was interrupted each replaced piece holds its old or its final bytes; what
// the checkpoint cuts off is not looked at. Bytes that the log does not replace are not compared: a change of those
// alone is noticed by the time of modification before a checkpoint, and not in an interrupted one.

#include <cstdint>
#include <optional>
#include <string>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_overlay.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

/// A log with something committed in it.
struct CommittedLog {
  File file;
  LogHeader header;
  Overlay overlay;  // the source as of the last commit; ranges in the log are at their positions in `file`
  uint64_t transactions = 0;
  uint64_t bytes = 0;     // of payload
  uint64_t sequence = 0;  // of the last commit frame
  uint64_t end = 0;       // position after it
  uint64_t checksum = 0;  // of it
};

enum class LogAccess { read, write };

/// Reads and checks the log of this name against its source as it is now. Nothing where there is none or nothing was
/// committed in it, whatever its source: such a log may be removed.
/// EUCLEAN: it is damaged or belongs to another state of the source. ENOTSUP: another format version. EPERM: the log of
/// another user, in a directory where all users may create files. Also the errors of opening and reading.
Result<std::optional<CommittedLog>> read_log(const File& directory, const std::string& name, const File& source,
                                             LogAccess access);
/// The header alone, unchecked against any source; nothing where there is none that can be read.
std::optional<LogHeader> read_log_header(const File& directory, const std::string& name);

/// Whether there is anything of this name.
bool log_exists(const File& directory, const std::string& name);

/// Calls `use(first, end)` for the pieces of [offset, end), cut at multiples of kSectorBytes.
template <class Use>
void for_each_piece(uint64_t offset, uint64_t end, const Use& use) {
  while (offset < end) {
    const uint64_t until = std::min(end, (offset / kSectorBytes + 1) * kSectorBytes);
    use(offset, until);
    offset = until;
  }
}

}  // namespace codecfs::hdf5
