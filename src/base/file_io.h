#pragma once
// The calls of the operating system that change files, behind a small interface, so that tests can record every one of
// them, make any of them fail, and rebuild what a kill or a power cut leaves behind.
//
// Only what changes something goes through it: reading is plain pread. All functions are safe from all threads. Errors
// carry the errno of the system call and the path.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// An open file or directory, and what messages call it.
struct File {
  UniqueFd fd;
  std::string path;
};

class FileIo {
 public:
  virtual ~FileIo() = default;

  /// Makes a file that must not exist (EEXIST; a symbolic link counts), open for reading and writing. `mode` holds
  /// whatever the umask. Not durable before sync() of the file and of the directory.
  virtual Result<File> create(const File& directory, const std::string& name, mode_t mode) = 0;
  /// Writes all of `bytes` at `offset` (bytes from the start of the file). After an error any part of them may be
  /// there.
  virtual Result<> write(const File& file, uint64_t offset, Bytes bytes) = 0;
  virtual Result<> truncate(const File& file, uint64_t size) = 0;
  /// Takes disk space for a range, which may lie beyond the end; size and content stay (fallocate). It may change the
  /// time of modification. EOPNOTSUPP where the filesystem cannot.
  virtual Result<> allocate(const File& file, uint64_t offset, uint64_t size);
  /// An extended attribute; durable after sync(). ENODATA: there is none to remove. EOPNOTSUPP: the filesystem has
  /// none.
  virtual Result<> set_attribute(const File& file, const std::string& name, const std::string& value);
  virtual Result<> remove_attribute(const File& file, const std::string& name);
  /// fdatasync: content and size, not the times. After an error the content is unknown, and a second call that succeeds
  /// proves nothing: the kernel may have dropped what it could not write.
  virtual Result<> sync_data(const File& file) = 0;
  /// fsync: everything of a file, or the names in a directory. Errors as of sync_data().
  virtual Result<> sync(const File& file_or_directory) = 0;
  /// syncfs: all that any program has changed in the filesystem that holds it. Errors as of sync_data().
  virtual Result<> sync_filesystem(const File& file_or_directory);
  /// Makes a directory that must not exist (EEXIST). `mode` holds whatever the umask. Durable after sync(directory).
  virtual Result<> make_directory(const File& directory, const std::string& name, mode_t mode) = 0;
  /// Replaces `to` where it exists. Both in `directory`; durable after sync(directory), as is unlink.
  virtual Result<> rename(const File& directory, const std::string& from, const std::string& to) = 0;
  virtual Result<> unlink(const File& directory, const std::string& name) = 0;
  /// Moves a name to another directory of the same filesystem (or to another name in this one), in one step. Never
  /// replaces: EEXIST. Durable after sync() of both.
  virtual Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                        const std::string& to) = 0;
  /// Exchanges what two names of a directory lead to, in one step: no moment without either. EOPNOTSUPP where the
  /// filesystem cannot. Durable after sync(directory).
  virtual Result<> exchange(const File& directory, const std::string& one, const std::string& other) = 0;
  /// An empty one: ENOTEMPTY. Durable after sync(directory).
  virtual Result<> remove_directory(const File& directory, const std::string& name) = 0;
};

/// The operating system itself.
FileIo& real_file_io();

/// A directory, to be passed to the functions above.
Result<File> open_directory(const std::string& path);
/// One in another; a symbolic link is none (ENOTDIR).
Result<File> open_directory(const File& parent, const std::string& name);

/// Whether a name in a directory still leads to this file, which another program that can write the directory may have
/// replaced. ESTALE.
Result<> check_name(const File& directory, const std::string& name, const File& file);

/// Reads at `offset` as much of `to` as there is before the end of the file: bytes read. `path` is for messages.
Result<size_t> read_at(int fd, const std::string& path, uint64_t offset, MutableBytes to);
inline Result<size_t> read_at(const File& file, uint64_t offset, MutableBytes to) {
  return read_at(file.fd.get(), file.path, offset, to);
}

}  // namespace codecfs
