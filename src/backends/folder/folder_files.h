#pragma once
// The files of a mounted folder, named by keys: paths relative to the folder, "" for the folder itself. A folder is a
// directory (local_files.h) or a prefix of a bucket (bucket_files.h). Thread-safe.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::folder {

/// Why no folder is shown of such a directory, of a disk or a bucket.
inline constexpr const char* kIcechunk =
    "is an Icechunk repository, which cannot be mounted; xarray.open_zarr(session.store).to_zarr(PATH) copies it";

/// What was found under a name.
struct Found {
  EntryKind kind = EntryKind::file;  // group or variable: a dataset
  struct stat status = {};
  std::string target;  // of symlinks, as stored
};

/// How the datasets of a folder are recognised and opened.
struct DatasetOpener {
  /// The kind of the root of a dataset; none for other files and directories. `fd` may be an O_PATH descriptor for a
  /// directory; `status` is its stat.
  std::function<std::optional<EntryKind>(int fd, const struct stat& status)> kind;
  std::function<Result<std::unique_ptr<Source>>(const std::string& path, bool may_write)> open;
};

class FolderFiles {
 public:
  FolderFiles() = default;
  FolderFiles(const FolderFiles&) = delete;
  FolderFiles& operator=(const FolderFiles&) = delete;
  virtual ~FolderFiles() = default;

  /// Status of the folder when it was opened.
  [[nodiscard]] virtual const struct stat& status() const = 0;
  [[nodiscard]] virtual struct statvfs filesystem() const = 0;
  /// See Source::reads_at_once().
  [[nodiscard]] virtual size_t reads_at_once() const { return 0; }
  /// Whether a commit may put another file in the place of a dataset, as that of an archive does.
  [[nodiscard]] virtual bool are_replaced_by_commits() const { return false; }
  /// Whether a dataset that could not be opened is not tried again before it changes.
  [[nodiscard]] virtual bool remembers_failures() const { return reads_at_once() == 0; }
  /// For messages, and for libraries that open files by path.
  [[nodiscard]] virtual std::string path_of(const std::string& key) const = 0;
  /// The key of an absolute path without links; none if it is outside of the folder.
  [[nodiscard]] virtual std::optional<std::string> key_of(const std::string& path) const = 0;

  /// lstat(); none if the name does not exist. Device and number identify a file, size and time its content.
  [[nodiscard]] virtual Result<std::optional<struct stat>> stat(const std::string& key) const = 0;
  /// Status and kind. None also for what is not shown.
  [[nodiscard]] virtual Result<std::optional<Found>> look(const std::string& key) const = 0;
  /// All visible names of a directory, in its own order, except the key `except`. A file that cannot be opened is
  /// listed with the type in its directory entry.
  using Names = std::vector<std::pair<std::string, Found>>;
  [[nodiscard]] virtual Result<Names> list(const std::string& key, const std::optional<std::string>& except) const = 0;
  /// Opens a regular file for reading. EOPNOTSUPP if it is none of this machine.
  [[nodiscard]] virtual Result<UniqueFd> open_file(const std::string& key) const = 0;
  /// Opens a regular file that is not on this machine; null for one that open_file() can open.
  [[nodiscard]] virtual Result<std::shared_ptr<const ContentReader>> open_content(const std::string& /*key*/) const {
    return std::shared_ptr<const ContentReader>();
  }
  /// Opens a dataset. ESTALE if it is not the one that was found; EINVAL if it is none.
  [[nodiscard]] virtual Result<std::shared_ptr<Source>> open_dataset(const std::string& key, const Found& expected,
                                                                     bool may_write) const = 0;
};

/// The key of a name in a directory.
std::string join(const std::string& directory, std::string_view name);
/// Whether they are the same file, perhaps with other content.
inline bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace codecfs::folder
