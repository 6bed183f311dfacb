#pragma once
// Rewrites an archive: entries of the old one are copied unchanged (compressed bytes, times, attributes, extra fields,
// comments), new ones are stored without compression, as chunks are compressed already.
//
// docs/architecture.md ("Own code in place of libraries") says why libzip does not do this.

#include <string>
#include <variant>
#include <vector>

#include "backends/zarr/store/zip_tree.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

struct NewZipEntry {
  std::string name;  // of a directory with '/' at the end
  // monostate: a directory without an entry in the old archive
  std::variant<ArchivedBytes, SpilledPtr, std::monostate> bytes;
  mode_t mode = 0;  // permissions of a new entry
};

struct RewrittenZip {
  std::vector<ZipEntry> entries;  // in the order of the argument
  zip::End end;
};

/// The work of write_zip(), in the unit that it reports with ProgressReporter::add_to_current().
uint64_t work_of_writing(const std::vector<NewZipEntry>& entries);

/// Writes an archive sequentially into an empty file, without a sync. EIO if a damaged entry of the old archive cannot
/// be copied; ENOSPC and other system errors.
Result<RewrittenZip> write_zip(FileIo& io, const File& to, const std::vector<NewZipEntry>& entries, Bytes comment);

}  // namespace codecfs::zarr
