#pragma once
// The files of a store that is a directory. Files are named by keys: paths relative to the store, "" for the store
// itself. Symbolic links are followed, as every other tool does. Holds one descriptor, and is safe from all threads.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::zarr {

class DirectoryStore {
 public:
  static Result<DirectoryStore> open(const std::string& path);
  static Result<DirectoryStore> open(const File& directory);
  /// The store is another directory from now on; nobody may use this meanwhile. status() stays.
  void move_to(DirectoryStore& other) { root_ = std::move(other.root_); }

  /// Of the store's directory, when it was opened.
  [[nodiscard]] const struct stat& status() const { return status_; }
  [[nodiscard]] struct statvfs filesystem() const;

  /// None where there is nothing of that name. EIO, EACCES.
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const;
  /// Whether a part of the key is a symbolic link, so that the same files have other keys too.
  [[nodiscard]] bool passes_link(const std::string& key) const;
  [[nodiscard]] Result<bool> has_file(const std::string& key) const;
  /// The whole of a regular file; none where there is none. EIO with a reason where it is larger than `limit` bytes.
  [[nodiscard]] Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const;

  /// A directory, to change what is in it; messages call it by its key. ENOENT, ENOTDIR.
  [[nodiscard]] Result<File> directory(const std::string& key) const;
  /// EROFS with the reason where no name in a directory can be changed.
  [[nodiscard]] Result<> may_change(const std::string& key) const;

  enum class EntryType { directory, other, unknown };  // unknown: a link, or the filesystem does not tell
  /// Calls visit(name, type) for every entry of a directory, in no order, without "." and "..". ENOENT.
  Result<> for_each(const std::string& key,
                    const std::function<Result<>(const char* name, EntryType type)>& visit) const;

 private:
  UniqueFd root_;
  struct stat status_ = {};
};

/// The key of something in a directory.
std::string join_key(const std::string& directory, std::string_view name);
/// The key of the directory that holds another, "" for the store.
std::string holder_of(std::string_view key);
/// Whether a key is that of `directory` or of something below it.
bool is_at_or_below(std::string_view key, std::string_view directory);

}  // namespace codecfs::zarr
