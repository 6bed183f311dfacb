#pragma once
// The files of a mounted folder. They are named by keys: paths relative to the folder, "" for the folder itself. No
// symbolic link is ever followed, so nothing outside of the folder is reached. Safe from all threads.

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

/// What a name leads to.
struct Found {
  EntryKind kind = EntryKind::file;  // group or variable: a dataset, by its content
  struct stat status = {};
  std::string target;  // of symlinks, as it is stored
};

class FolderFiles {
 public:
  /// ENOENT, EACCES, ENOTDIR.
  static Result<FolderFiles> open(const std::string& path);

  /// Of the folder, when it was opened.
  [[nodiscard]] const struct stat& status() const { return status_; }
  [[nodiscard]] struct statvfs filesystem() const;
  /// For messages, and for libraries that open files by path.
  [[nodiscard]] std::string path_of(const std::string& key) const;
  /// The key of an absolute path without links; none where it is outside of the folder.
  [[nodiscard]] std::optional<std::string> key_of(const std::string& path) const;

  /// The status of what is there, not followed; none where there is nothing.
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const;
  /// The same with what it is. None also for what is not shown: sockets, pipes, devices, and the files that codecfs
  /// itself makes beside datasets while it writes them.
  [[nodiscard]] Result<std::optional<Found>> look(const std::string& key) const;
  /// All names of a directory that are shown, in its own order, but for the key `except`. What cannot be looked at
  /// is listed as what the directory says that it is.
  [[nodiscard]] Result<std::vector<std::pair<std::string, Found>>> list(const std::string& key,
                                                                        const std::optional<std::string>& except) const;
  /// A regular file, for reading.
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
