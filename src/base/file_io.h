#pragma once
// The system calls that change files, behind an interface, so that tests can record them, inject faults and reconstruct
// the state after a kill or a power failure.
//
// Only changes go through it; reads use plain pread. All functions are thread-safe. Errors carry the errno of the
// system call and the path.

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// The largest offset of a byte in a file.
inline constexpr uint64_t kLargestOffset = std::numeric_limits<off_t>::max();

/// An open file or directory, with the path that messages show.
struct File {
  UniqueFd fd;
  std::string path;
};

class FileIo {
 public:
  virtual ~FileIo() = default;

  /// Creates a file for reading and writing; EEXIST if the name exists, also as a symbolic link. `mode` is applied
  /// without the umask. Durable after sync() of the file and of the directory.
  virtual Result<File> create(const File& directory, const std::string& name, mode_t mode) = 0;
  /// Writes all of `bytes` at `offset` (bytes from the start of the file). After an error, any part of them may have
  /// been written.
  virtual Result<> write(const File& file, uint64_t offset, Bytes bytes) = 0;
  virtual Result<> truncate(const File& file, uint64_t size) = 0;
  /// Reserves disk space for a range, which may lie beyond the end of the file; size and content do not change
  /// (fallocate). May change the modification time. EOPNOTSUPP if the filesystem does not support it.
  virtual Result<> allocate(const File& file, uint64_t offset, uint64_t size);
  /// Sets or removes an extended attribute; durable after sync(). ENODATA if there is none to remove, EOPNOTSUPP if the
  /// filesystem does not support extended attributes.
  virtual Result<> set_attribute(const File& file, const std::string& name, const std::string& value);
  virtual Result<> remove_attribute(const File& file, const std::string& name);
  /// fdatasync: content and size, not the timestamps. After an error the content on disk is unknown, and a later
  /// successful call proves nothing: the kernel may have dropped the dirty pages that it could not write.
  virtual Result<> sync_data(const File& file) = 0;
  /// fsync: all of a file, or the names in a directory. Fails as sync_data() does.
  virtual Result<> sync(const File& file_or_directory) = 0;
  /// syncfs: everything that any program has changed in this filesystem. Fails as sync_data() does.
  virtual Result<> sync_filesystem(const File& file_or_directory);
  /// Creates a directory; EEXIST if the name exists. `mode` is applied without the umask. Durable after
  /// sync(directory).
  virtual Result<> make_directory(const File& directory, const std::string& name, mode_t mode) = 0;
  /// Replaces `to` if it exists. Both names are in `directory`. Durable after sync(directory), like unlink().
  virtual Result<> rename(const File& directory, const std::string& from, const std::string& to) = 0;
  virtual Result<> unlink(const File& directory, const std::string& name) = 0;
  /// Atomically moves a name to another directory of the same filesystem (or to another name in this directory). Never
  /// replaces: EEXIST. Durable after sync() of both directories.
  virtual Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                        const std::string& to) = 0;
  /// Atomically exchanges two names in a directory. EOPNOTSUPP if the filesystem does not support it. Durable after
  /// sync(directory).
  virtual Result<> exchange(const File& directory, const std::string& one, const std::string& other) = 0;
  /// ENOTEMPTY if the directory is not empty. Durable after sync(directory).
  virtual Result<> remove_directory(const File& directory, const std::string& name) = 0;
};

/// Calls the operating system.
FileIo& real_file_io();

/// Opens a directory for the functions above.
Result<File> open_directory(const std::string& path);
/// Renames a file or directory, unless there is something at `to`: EEXIST.
Result<> rename_new(const std::string& from, const std::string& to);
/// Opens a directory in `parent`. ENOTDIR if the name is a symbolic link.
Result<File> open_directory(const File& parent, const std::string& name);

/// ESTALE if a name in a directory no longer refers to this open file, because another program has replaced it.
Result<> check_name(const File& directory, const std::string& name, const File& file);

/// Reads up to to.size() bytes at `offset`, fewer at the end of the file, and returns how many. `path` is for messages.
Result<size_t> read_at(int fd, const std::string& path, uint64_t offset, MutableBytes to);
inline Result<size_t> read_at(const File& file, uint64_t offset, MutableBytes to) {
  return read_at(file.fd.get(), file.path, offset, to);
}

}  // namespace codecfs
