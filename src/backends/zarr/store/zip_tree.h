#pragma once
// What a zip archive holds, as directories and files in memory: the archive as it was opened, with all changes since.
// About 250 bytes an entry.
//
// Whoever looks at directories or places holds ZipTree::mutex shared, whoever changes them holds it alone. The bytes of
// a file are read without it: what a ZipPlace leads to stays as it is.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/zarr/store/spill_file.h"
#include "backends/zarr/store/zip_archive.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

struct ArchivedBytes {
  std::shared_ptr<const ZipArchive> archive;
  ZipEntry entry;
};

/// Where the bytes of a file are.
using ZipPlace = std::variant<ArchivedBytes, SpilledPtr>;

uint64_t size_of(const ZipPlace& place);
/// `name` is for messages. EIO where there are more than `limit` bytes.
Result<Buffer> read_place(const ZipPlace& place, const std::string& name, uint64_t limit);

/// Never changes what its bytes are: other bytes are another ZipFile. A commit changes their place.
struct ZipFile {
  ZipPlace place;
  mode_t mode = 0;  // of one that is not archived yet
};

struct ZipDirectory;
using ZipFilePtr = std::shared_ptr<ZipFile>;
using ZipDirectoryPtr = std::shared_ptr<ZipDirectory>;
using ZipMember = std::variant<ZipFilePtr, ZipDirectoryPtr>;

struct ZipDirectory {
  ZipDirectory(uint64_t number_, uint64_t version_) : number(number_), version(version_) {}

  uint64_t number;   // one of its own, for as long as the store is open
  uint64_t version;  // another one whenever a name in it changes
  std::map<std::string, ZipMember, std::less<>> members;
  std::optional<ArchivedBytes> entry;  // where the archive has one for the directory itself
};

class ZipTree {
 public:
  static constexpr size_t kMaxDepth = 256;  // parts of a path
  static constexpr uint64_t kMaxDirectories = ZipArchive::kMaxEntries;

  /// Reads what the archive has. What cannot be shown is left out with a warning; that nothing of it gets lost, such an
  /// archive is not written: whole() tells.
  static Result<std::shared_ptr<ZipTree>> open(File archive);

  /// Nothing, or EROFS with what there is in the archive that could not be written again as it is.
  [[nodiscard]] Result<> whole() const;

  ZipDirectoryPtr new_directory() { return std::make_shared<ZipDirectory>(next_++, next_++); }
  /// A name in a directory was changed.
  void touch(ZipDirectory& directory) { directory.version = next_++; }

  mutable std::shared_mutex mutex;  // guards what follows, and all that it leads to
  std::shared_ptr<const ZipArchive> archive;
  ZipDirectoryPtr top;     // of the archive
  std::string store_name;  // of the directory that is the store, from there; "": that one
  std::string first_name;  // of the archive's first entry
  bool has_directory_entries = false;

 private:
  class Builder;

  std::atomic<uint64_t> next_ = 1;
  std::optional<std::string> lost_;  // what is left out
};

/// The directory of a key below another; null where there is none.
ZipDirectoryPtr find_zip_directory(const ZipDirectoryPtr& from, std::string_view key);
/// What is at a key; none where there is nothing.
std::optional<ZipMember> find_zip_member(const ZipDirectoryPtr& from, std::string_view key);

}  // namespace codecfs::zarr
