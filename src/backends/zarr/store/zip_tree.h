#pragma once
// The content of a zip archive as directories and files in memory, with all changes since it was opened. About 250
// bytes per entry.
//
// Reading directories or places requires ZipTree::mutex shared, changing them requires it exclusively. The bytes of a
// file are read without it: the data that a ZipPlace refers to never changes.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/zarr/store/spill_file.h"
#include "backends/zarr/store/zip_archive.h"
#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

struct ArchivedBytes {
  std::shared_ptr<const ZipArchive> archive;
  ZipEntry entry;
};

/// The location of a file's bytes.
using ZipPlace = std::variant<ArchivedBytes, SpilledPtr>;

uint64_t size_of(const ZipPlace& place);
/// `name` is for messages. EIO if there are more than `limit` bytes.
Result<Buffer> read_place(const ZipPlace& place, const std::string& name, uint64_t limit);
/// Whether a part of the bytes can be read without the rest: they are not compressed.
bool has_parts(const ZipPlace& place);
/// A part of such bytes, which must exist. Their checksum is not verified. EIO.
Result<Buffer> read_part(const ZipPlace& place, const std::string& name, uint64_t offset, uint64_t size);

uint64_t next_zip_file_number();

/// Immutable content: new content is a new ZipFile. A commit changes its place.
struct ZipFile {
  ZipPlace place;
  mode_t mode = 0;                           // of a file that is not archived yet
  uint64_t number = next_zip_file_number();  // unique in the process
};

struct ZipDirectory;
using ZipFilePtr = std::shared_ptr<ZipFile>;
using ZipDirectoryPtr = std::shared_ptr<ZipDirectory>;
using ZipMember = std::variant<ZipFilePtr, ZipDirectoryPtr>;

struct ZipDirectory {
  ZipDirectory(uint64_t number_, uint64_t version_) : number(number_), version(version_) {}

  uint64_t number;   // unique while the store is open
  uint64_t version;  // changes whenever a name in the directory changes
  std::map<std::string, ZipMember, std::less<>> members;
  std::optional<ArchivedBytes> entry;  // the archive's entry for the directory itself, if there is one
};

class ZipTree {
 public:
  static constexpr size_t kMaxDepth = 256;  // components of a path
  static constexpr uint64_t kMaxDirectories = ZipArchive::kMaxEntries;

  /// Reads an archive's directory. Entries that cannot be shown are omitted with a warning; such an archive must not be
  /// rewritten, as they would be lost: see whole().
  static Result<std::shared_ptr<ZipTree>> open(ZipBytes archive);

  /// EROFS with the entries that a rewrite would lose.
  [[nodiscard]] Result<> whole() const;

  /// ENAMETOOLONG if the path of a key in the store, alone or with the descendants of `below`, is too long for a zip
  /// archive.
  [[nodiscard]] Result<> check_reach(const std::string& key, const ZipDirectory* below = nullptr) const
      CODECFS_REQUIRES_SHARED(mutex);

  ZipDirectoryPtr new_directory() { return std::make_shared<ZipDirectory>(next_++, next_++); }
  /// Records that a name in a directory has changed.
  void touch(ZipDirectory& directory) CODECFS_REQUIRES(mutex) { directory.version = next_++; }

  mutable SharedMutex mutex{LockRank::zip_tree};  // also guards everything that `top` refers to
  std::shared_ptr<const ZipArchive> archive CODECFS_GUARDED_BY(mutex);
  ZipDirectoryPtr top CODECFS_GUARDED_BY(mutex);  // of the archive

  // Set at open.
  std::string store_name;  // path of the store's directory from `top`; "": `top` itself
  std::string first_name;  // of the archive's first entry
  bool has_directory_entries = false;

 private:
  class Builder;

  std::atomic<uint64_t> next_ = 1;
  std::optional<std::string> lost_;  // omitted entries
};

/// The directory at a key relative to another; null if there is none.
ZipDirectoryPtr find_zip_directory(const ZipDirectoryPtr& from, std::string_view key);
/// The member at a key; none if it does not exist.
std::optional<ZipMember> find_zip_member(const ZipDirectoryPtr& from, std::string_view key);

}  // namespace codecfs::zarr
