#pragma once
// Which directories have no logs, so that not every file that is opened has its directory listed: that would cost time
// in proportion to the number of files in it. Thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_io.h"

namespace codecfs::hdf5 {

inline constexpr size_t kMaxEntries = 4096;  // names of a directory that are looked at
inline constexpr size_t kMaxCandidates = 16;

/// What changes with the names in a directory. All 0: unknown.
struct DirectoryState {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t seconds = 0;  // its time of change, which programs cannot set
  int64_t nanoseconds = 0;

  bool operator==(const DirectoryState&) const = default;
};

/// The names of the logs in a directory but this one: at most kMaxCandidates, of the first kMaxEntries names; where the
/// directory cannot be read, those found until then. `may_know`: one that is known to have none is not listed.
std::vector<std::string> logs_in(const File& directory, const std::string& but, bool may_know);

/// The state in which a directory has no logs, if that is known or found now; else unknown. Always unknown on
/// filesystems without extended attributes, where marks cannot name logs, and perhaps times of directories do not
/// change with names.
DirectoryState state_without_logs(const std::string& directory);
/// Another process has found so.
void note_without_logs(const DirectoryState& state);

}  // namespace codecfs::hdf5
