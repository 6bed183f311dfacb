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
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/namespace/nodes.h"

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
  /// Returns the content of the file. Until unseal() or promote(), writers wait.
  Result<std::string> seal(Ino directory, std::string_view name);
  void unseal(Ino directory, std::string_view name);
  /// The file was renamed to a chunk: drops its bytes, and maps its inode number to `chunk`.
  void promote(Ino directory, std::string_view name, Ino chunk);
  /// The chunk that a file has become, if so.
  std::optional<Ino> promoted_to(Ino ino);

  /// The inode numbers that files had before they were renamed to this chunk and that the kernel still uses: a program
  /// with such a file open reads the chunk through them.
  std::vector<Ino> former_inos(Ino chunk);

  /// Counts lookups by the kernel, so that unlinked files can be freed when the kernel has forgotten them.
  void looked_up(Ino ino);
  void forgotten(Ino ino, uint64_t count);
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
