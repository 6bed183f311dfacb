#pragma once
// The files of a mounted folder, named by keys: paths relative to the folder, "" for the folder itself. Symbolic links
// are never followed, so no file outside of the folder is accessed. Thread-safe.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::folder {

/// What was found under a name.
struct Found {
  EntryKind kind = EntryKind::file;  // group or variable: a dataset, by its content
  struct stat status = {};
  std::string target;  // of symlinks, as stored
};

class FolderFiles {
 public:
  /// ENOENT, EACCES, ENOTDIR.
  static Result<FolderFiles> open(const std::string& path);

  /// Status of the folder when it was opened.
  [[nodiscard]] const struct stat& status() const { return status_; }
  [[nodiscard]] struct statvfs filesystem() const;
  /// For messages, and for libraries that open files by path.
  [[nodiscard]] std::string path_of(const std::string& key) const;
  /// The key of an absolute path without links; none if it is outside of the folder.
  [[nodiscard]] std::optional<std::string> key_of(const std::string& path) const;

  /// lstat(); none if the name does not exist.
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const;
  /// Status and kind. None also for files that are not shown: sockets, FIFOs, devices, and the auxiliary files that
  /// codecfs creates beside datasets while it writes them.
  [[nodiscard]] Result<std::optional<Found>> look(const std::string& key) const;
  /// All visible names of a directory, in its own order, except the key `except`. A file that cannot be opened is
  /// listed with the type in its directory entry.
  [[nodiscard]] Result<std::vector<std::pair<std::string, Found>>> list(const std::string& key,
                                                                        const std::optional<std::string>& except) const;
  /// Opens a regular file for reading.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& key) const;

 private:
  [[nodiscard]] Result<UniqueFd> directory(std::string_view key, int flags) const;

  std::string path_;  // absolute, without links
  UniqueFd root_;
  struct stat status_ = {};
};

/// The key of a name in a directory.
std::string join(const std::string& directory, std::string_view name);

}  // namespace codecfs::folder
