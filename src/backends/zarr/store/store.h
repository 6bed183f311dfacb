#pragma once
// Reads the files of a Zarr store: a directory (directory_store.h), a zip archive (zip_store.h) or objects
// (object_store.h). Files are named by keys: paths relative to the store, "" for the store itself. Thread-safe.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/api/chunk.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "remote/range_plan.h"

namespace codecfs::zarr {

/// A file that others replace while a part of it is read is opened anew so many times.
inline constexpr unsigned kMaxStates = 5;

/// A regular file of a store that is open for reading.
class StoredFile : public ContentReader {
 public:
  /// Equal for two opened files of the same key exactly if their content is the same, as far as the filesystem tells,
  /// while the first of them is open.
  [[nodiscard]] virtual std::string version() const = 0;
  /// These parts will be read() soon, each once: a file that waits for a network requests them together. Does not wait.
  virtual void expect(std::span<const remote::ByteRange> /*ranges*/) const {}
};

class Store {
 public:
  Store() = default;
  Store(Store&&) = default;
  Store& operator=(Store&&) = default;
  virtual ~Store() = default;

  /// Status of the store's directory or archive when it was opened.
  [[nodiscard]] virtual const struct stat& status() const = 0;
  [[nodiscard]] virtual struct statvfs filesystem() const = 0;

  /// See Source::reads_at_once().
  [[nodiscard]] virtual size_t reads_at_once() const { return 0; }
  /// None if the name does not exist. Device and inode number identify a directory for as long as the store is open,
  /// even if it is moved; the mtime of a directory changes with its entries. EIO, EACCES.
  [[nodiscard]] virtual Result<std::optional<struct stat>> stat(const std::string& key) const = 0;
  /// Whether a component of the key is a symbolic link, so that the files below have other keys too.
  [[nodiscard]] virtual bool passes_link(const std::string& key) const = 0;
  /// The text of a symbolic link; none for what is no link.
  [[nodiscard]] virtual Result<std::optional<std::string>> link_text(const std::string& /*key*/) const {
    return std::optional<std::string>();
  }
  /// The key to which an absolute path leads, as far as its text tells; none if that is not in the store.
  [[nodiscard]] virtual std::optional<std::string> key_of(const std::string& /*path*/) const { return std::nullopt; }
  [[nodiscard]] Result<bool> has_file(const std::string& key) const;
  struct Stored {
    uint64_t bytes = 0;              // stored size
    std::optional<uint64_t> offset;  // from the start of the containing file, if known
  };
  /// Location and size of a regular file; none if it does not exist.
  [[nodiscard]] virtual Result<std::optional<Stored>> locate(const std::string& key) const;
  /// The offset of its content in the file that is the store; none if that is a directory, or the content is compressed
  /// or not there yet.
  [[nodiscard]] virtual Result<std::optional<uint64_t>> offset_of(const std::string& /*key*/) const {
    return std::optional<uint64_t>();
  }
  /// The content of a regular file; none if it does not exist. EIO with a reason if it is larger than `limit` bytes.
  [[nodiscard]] virtual Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const = 0;
  /// A descriptor of a regular file that has this content; none if it does not exist, or is no file of its own.
  [[nodiscard]] virtual Result<std::optional<UniqueFd>> open_plain(const std::string& /*key*/) const {
    return std::optional<UniqueFd>();
  }
  /// These files will be read() soon: a store that waits for a network requests them at once. Does not wait.
  /// `most_bytes`: that each of them should have.
  virtual void expect(std::span<const std::string> /*keys*/, uint64_t /*most_bytes*/) const {}
  /// These files will be opened soon: a store that waits for a network begins to open them. Does not wait.
  virtual void expect_opened(std::span<const std::string> /*keys*/) const {}
  /// The metadata files of all groups and arrays below a group will be read() soon: a store that waits for a network
  /// requests them together, and waits for them.
  virtual void expect_tree(const std::string& /*group*/) const {}
  /// Opens a regular file to read parts of it; null if it does not exist.
  [[nodiscard]] virtual Result<std::shared_ptr<const StoredFile>> open_file(const std::string& key) const = 0;
  /// As open_file(), after read() of an opened file returned ESTALE: opens the file that is there now.
  [[nodiscard]] virtual Result<std::shared_ptr<const StoredFile>> reopen_file(const std::string& key) const {
    return open_file(key);
  }
  /// Whether a file that was found absent is not there, as opposed to the store: ESTALE if `beside`, a file that was
  /// there, is not any more; EIO if the file is a link to one that is not there.
  [[nodiscard]] virtual Result<> check_absence(const std::string& /*key*/, const std::string& /*beside*/) const {
    return {};
  }
  /// Whether another program was found to have changed the file since it was first read here, or since the last call.
  virtual bool take_changed(const std::string& /*key*/) const { return false; }
  /// EROFS with the reason if entries of a directory cannot be changed.
  [[nodiscard]] virtual Result<> may_change(const std::string& key) const = 0;

  // special: a FIFO, socket or device; unknown: a link, or not reported by the filesystem
  enum class EntryType { directory, file, special, unknown };
  /// Calls visit(name, type) for every entry of a directory, in no particular order, without "." and "..". ENOENT,
  /// ENOTDIR.
  virtual Result<> for_each(const std::string& key,
                            const std::function<Result<>(const char* name, EntryType type)>& visit) const = 0;
  /// A directory as a store of its own, which stays valid if the directory is moved. ENOENT.
  [[nodiscard]] virtual Result<std::unique_ptr<Store>> below(const std::string& key) const = 0;
};

/// The key of an entry in a directory.
std::string join_key(const std::string& directory, std::string_view name);
/// The key of the parent directory, "" for the store.
std::string holder_of(std::string_view key);
/// The last component of a key.
std::string name_of(const std::string& key);
/// Whether a key is that of `directory` or of a descendant.
bool is_at_or_below(std::string_view key, std::string_view directory);

}  // namespace codecfs::zarr
