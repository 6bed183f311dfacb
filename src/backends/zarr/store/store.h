#pragma once
// The files of a Zarr store, wherever they lie: a directory (directory_store.h) or a zip archive (zip_store.h). Files
// are named by keys: paths relative to the store, "" for the store itself. Safe from all threads.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

class Store {
 public:
  Store() = default;
  Store(Store&&) = default;
  Store& operator=(Store&&) = default;
  virtual ~Store() = default;

  /// Of the store's directory or archive, when it was opened.
  [[nodiscard]] virtual const struct stat& status() const = 0;
  [[nodiscard]] virtual struct statvfs filesystem() const = 0;

  /// None where there is nothing of that name. Device and inode number tell one directory from another for as long as
  /// the store is open, wherever it is moved to; the mtime of a directory changes with the names in it. EIO, EACCES.
  [[nodiscard]] virtual Result<std::optional<struct stat>> stat(const std::string& key) const = 0;
  /// Whether a part of the key is a symbolic link, so that the same files have other keys too.
  [[nodiscard]] virtual bool passes_link(const std::string& key) const = 0;
  [[nodiscard]] Result<bool> has_file(const std::string& key) const;
  struct Stored {
    uint64_t bytes = 0;              // that it takes where it is
    std::optional<uint64_t> offset;  // from the start of the file that holds it, where that is known
  };
  /// Where and how a regular file is stored; none where there is none.
  [[nodiscard]] virtual Result<std::optional<Stored>> locate(const std::string& key) const;
  /// The whole of a regular file; none where there is none. EIO with a reason where it is larger than `limit` bytes.
  [[nodiscard]] virtual Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const = 0;
  /// EROFS with the reason where no name in a directory can be changed.
  [[nodiscard]] virtual Result<> may_change(const std::string& key) const = 0;

  // special: a pipe, socket or device; unknown: a link, or the filesystem does not tell
  enum class EntryType { directory, file, special, unknown };
  /// Calls visit(name, type) for every entry of a directory, in no order, without "." and "..". ENOENT, ENOTDIR.
  virtual Result<> for_each(const std::string& key,
                            const std::function<Result<>(const char* name, EntryType type)>& visit) const = 0;
  /// What lies in a directory, as a store of its own: it stays that directory wherever that is moved to. ENOENT.
  [[nodiscard]] virtual Result<std::unique_ptr<Store>> below(const std::string& key) const = 0;
};

/// The key of something in a directory.
std::string join_key(const std::string& directory, std::string_view name);
/// The key of the directory that holds another, "" for the store.
std::string holder_of(std::string_view key);
/// Whether a key is that of `directory` or of something below it.
bool is_at_or_below(std::string_view key, std::string_view directory);

}  // namespace codecfs::zarr
