#pragma once
// Which files the process that runs libhdf5 may use. It asks for each (base/file_calls.h); nothing that it says is
// trusted.
//
//   written   the source; its log: .NAME.codecfs-wal in its directory, and the log that its attribute names when it is
//             mounted; once the source was deleted, a new file for its content beside the log
//   read      these; what it may refer to (Follow): regular files and directories; plugins and libraries
//
// Paths are resolved by the daemon, once, to O_PATH descriptors, which are then judged and used: a name that changes
// meanwhile has no effect.

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/api/references.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::worker {

struct FileRules {
  std::string source;  // absolute, without symbolic links
  bool may_write = false;
  std::string working_directory;  // of the process
  ReferenceRules references;
  std::vector<std::string> libraries;  // directories and files that are readable
};

/// Thread-safe. Errors without a reason are those of the system calls; those with a reason are refusals.
class FilePolicy {
 public:
  /// `source`: the file, open for reading.
  FilePolicy(FileRules rules, UniqueFd source);

  /// A path as a process gives it: relative to a directory (none: its working directory), or absolute.
  struct Path {
    const UniqueFd& directory;
    const std::string& text;
  };
  enum class Use { look, read };
  struct Found {
    UniqueFd fd;  // O_PATH
    struct stat status{};
  };
  /// What a path names, if the process may look at it or read it.
  Result<Found> find(const Path& path, Use use, bool follows_links);

  /// A name in a directory.
  struct Place {
    UniqueFd directory;  // O_PATH
    std::string name;
  };
  /// The place that a path names, if the process may write there: the source, or its log.
  Result<Place> find_written(const Path& path);
  /// The place that a path names, whatever it is.
  Result<Place> place_of(const Path& path) const;
  /// Whether the content of the source, which was deleted, may get its final name (write_log_rescue.h).
  bool may_be_rescued_as(const Place& draft, const Place& place);
  [[nodiscard]] bool is_source(const struct stat& status) const;
  /// Whether `path` may become the value of the source's attribute that names its log.
  bool may_be_log(const std::string& path);

  [[nodiscard]] Follow followed() const { return rules_.references.follow; }
  [[nodiscard]] const UniqueFd& source() const { return source_; }
  /// Whether the process may give a file of its own to this user and group (UINT32_MAX: unchanged).
  [[nodiscard]] bool may_own(uint32_t user, uint32_t group) const;

 private:
  struct LogPlace {
    std::string directory;
    dev_t device = 0;
    ino_t inode = 0;
    std::string name;
  };
  void note_present_place() CODECFS_REQUIRES(mutex_);
  void add_place(const std::string& directory, const std::string& log) CODECFS_REQUIRES(mutex_);
  void add_marked_place() CODECFS_REQUIRES(mutex_);
  [[nodiscard]] std::string absolute(const Path& path) const;
  [[nodiscard]] std::string root() const;
  [[nodiscard]] bool is_library(const std::string& path, Use use) const;
  bool is_visible(const std::string& path, Use use);
  bool is_log(const Place& place);
  Result<UniqueFd> open_beneath(const std::string& path, bool follows_links) const;

  const FileRules rules_;
  const UniqueFd source_;
  struct stat status_{};  // of the source
  Mutex mutex_;
  std::vector<LogPlace> places_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::worker
