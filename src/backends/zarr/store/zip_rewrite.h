#pragma once
// An archive written anew: entries of the old one are copied as they are (compressed bytes, times, attributes, extra
// fields, comments), new ones are stored without a method, as chunks are compressed already.
//
// libzip, which would do this too, neither tells where it has put an entry nor syncs, and would hold a second directory
// of the archive for as long as it writes.

#include <string>
#include <variant>
#include <vector>

#include "backends/zarr/store/zip_tree.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

struct NewZipEntry {
  std::string name;                                               // of a directory with '/' at the end
  std::variant<ArchivedBytes, SpilledPtr, std::monostate> bytes;  // none: a directory that has no entry yet
  mode_t mode = 0;                                                // permissions of what is new
};

struct RewrittenZip {
  std::vector<ZipEntry> entries;  // in the order that they were given in
  zip::End end;
};

/// How much write_zip() has to do, in the unit in which it tells the ProgressReporter that goes on (add_to_current) of
/// it.
uint64_t work_of_writing(const std::vector<NewZipEntry>& entries);

/// Writes an archive into an empty file, from its start to its end. Nothing is synced. EIO where an entry of the old
/// archive is damaged so that it cannot be copied; ENOSPC and all else that the system says.
Result<RewrittenZip> write_zip(FileIo& io, const File& to, const std::vector<NewZipEntry>& entries, Bytes comment);

}  // namespace codecfs::zarr
