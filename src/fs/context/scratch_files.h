#pragma once
// Files with other names in a variable's directory, which rsync, zarr-python and editors write first and then rename to
// a chunk's name. They exist in memory only, are never stored in the source, and are lost at unmount.
//
// A scratch file that was renamed to a chunk is that chunk from then on, also under its old inode number (until the
// kernel forgets it). Thread-safe.

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class ScratchFiles {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;  // for all files together
  static constexpr size_t kMaxFiles = 65536;

  /// Creates a file and returns its inode number. EEXIST, ENOSPC.
  Result<Ino> create(Ino directory, std::string_view name, mode_t permissions);
  std::optional<Ino> find(Ino directory, std::string_view name);
  std::vector<std::pair<std::string, Ino>> list(Ino directory);
  /// The directories with files, of those with `count` consecutive inode numbers.
  std::vector<Ino> directories_within(Ino first, uint64_t count);

  /// Size, permissions and times. ESTALE.
  Result<struct stat> status(Ino ino);
  Result<> set_permissions(Ino ino, mode_t permissions);
  /// At most `size` bytes from `offset` on. ESTALE.
  Result<std::string> read(Ino ino, uint64_t offset, size_t size);
  /// False if the file has become a chunk. Waits while the file is sealed. ENOSPC, ESTALE.
  Result<bool> write(Ino ino, uint64_t offset, Bytes bytes);
  Result<> resize(Ino ino, uint64_t size);

  /// ENOENT.
  Result<> unlink(Ino directory, std::string_view name);
  /// Renames to a name that is not a chunk's, replacing an existing file. ENOENT; EBUSY while the file is sealed.
  Result<> rename(Ino directory, std::string_view name, Ino to_directory, std::string_view to_name);
  /// A file that is being renamed to a chunk or a metadata file. During its lifetime writers of the file wait, and it
  /// has no other name.
  class [[nodiscard]] Sealed {
   public:
    Sealed(Sealed&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), ino_(other.ino_), content_(std::move(other.content_)) {}
    Sealed& operator=(Sealed&&) = delete;
    ~Sealed() {
      if (owner_ != nullptr) owner_->unseal(ino_);
    }
    [[nodiscard]] const std::string& content() const { return content_; }
    /// The file was renamed to a chunk: drops its bytes, and maps its inode number to `chunk`.
    void promote(Ino chunk) { owner_->promote(ino_, chunk); }

   private:
    friend class ScratchFiles;
    Sealed(ScratchFiles& owner, Ino ino, std::string content)
        : owner_(&owner), ino_(ino), content_(std::move(content)) {}

    ScratchFiles* owner_;
    Ino ino_;
    std::string content_;
  };
  /// ENOENT; EBUSY if it is sealed already.
  Result<Sealed> seal(Ino directory, std::string_view name);
  /// The chunk that a file has become, if so.
  std::optional<Ino> promoted_to(Ino ino);

  /// The inode numbers that files had before they were renamed to this chunk and that the kernel still uses: a program
  /// with such a file open reads the chunk through them.
  std::vector<Ino> former_inos(Ino chunk);

  /// Counts lookups by the kernel, so that unlinked files can be freed when the kernel has forgotten them.
  void looked_up(Ino ino);
  void forgotten(Ino ino, uint64_t count);
  /// The bytes of all files.
  uint64_t bytes();
  /// Directory and name of the existing files, which will be lost at unmount.
  std::vector<std::pair<Ino, std::string>> names();

 private:
  struct File {
    Ino directory = 0;
    std::string name;  // empty: unlinked
    std::string bytes;
    mode_t permissions = 0600;
    timespec modified = {};
    uint64_t lookups = 0;
    bool sealed = false;
    std::optional<Ino> chunk;
  };
  using Key = std::pair<Ino, std::string>;

  Result<File*> at(Ino ino) CODECFS_REQUIRES(mutex_);
  Result<> set_size(File& file, uint64_t size) CODECFS_REQUIRES(mutex_);
  void unseal(Ino ino);
  void promote(Ino ino, Ino chunk);
  void drop_if_unused(Ino ino) CODECFS_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable unsealed_;
  std::unordered_map<Ino, File> files_ CODECFS_GUARDED_BY(mutex_);
  std::map<Key, Ino> names_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_multimap<Ino, Ino> former_ CODECFS_GUARDED_BY(mutex_);  // by File::chunk
  uint64_t next_ CODECFS_GUARDED_BY(mutex_) = 16;
  uint64_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace codecfs::fs
