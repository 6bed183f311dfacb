#pragma once
// Changes to the files and directories of a store, each atomic: a reader, also after a kill or a power failure, finds
// the complete old or new file, and likewise the complete old or new directory. directory_writer.h and zip_writer.h
// describe how; object_writer.h says what is different there.
//
// Thread-safe, also for concurrent changes of the same chunk: the last write wins. But while a directory is moved or
// removed, no other thread may use its content, or commit.

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/zarr/store/store.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A part of a new file's content: bytes in memory, or a range of another file.
struct StorePart {
  Bytes bytes;                             // if there is no file
  std::shared_ptr<const StoredFile> file;  // from which `size` bytes at `offset` are copied
  uint64_t offset = 0;
  uint64_t size = 0;  // of the part
};

/// A directory outside of the store: new and being filled, or removed. The destructor deletes its content.
class NewDirectory {
 public:
  virtual ~NewDirectory() = default;

  /// Creates a file with this content. Slashes in `name` create subdirectories as needed. Thread-safe.
  virtual Result<> write(const std::string& name, Bytes bytes, mode_t mode) = 0;
  /// Creates a directory; no error if it exists.
  virtual Result<> make_directory(const std::string& name, mode_t mode) = 0;
  /// The status of its future parent directory, as Store::stat() returns it.
  [[nodiscard]] virtual Result<struct stat> parent_status() const = 0;
  /// Moves it with all its content to its name, which must be free (EEXIST). Durable after a commit.
  virtual Result<> place(const std::string& name) = 0;
  /// Atomically exchanges it with an existing directory, whose content it then has. EOPNOTSUPP if the filesystem does
  /// not support that.
  virtual Result<> exchange(const std::string& name) = 0;
};

class SharedStore;

/// Changes a store. This class itself refuses all changes: it is the writer of a store in an object store that is only
/// read.
class StoreWriter {
 public:
  virtual ~StoreWriter() = default;

  /// How the store is changed that other programs may write at the same time (shared_store.h); null if there are none.
  [[nodiscard]] virtual SharedStore* shared() { return nullptr; }

  /// Acquires the right to write: EBUSY if another program has the store open. All other functions do this too.
  virtual Result<> begin() { return refuse(); }
  /// Atomically sets the content of the file `name` in the directory `array` (slashes in `name` create subdirectories
  /// with the array's mode as needed). `mode`: permissions of the file. EBUSY; ENOSPC, EIO and other system errors,
  /// after which the old file is unchanged and no new one exists.
  virtual Result<> write(const std::string& /*array*/, const std::string& /*name*/, Bytes, mode_t) { return refuse(); }
  /// As write(), for content in parts.
  virtual Result<> write_parts(const std::string& /*array*/, const std::string& /*name*/, std::span<const StorePart>,
                               mode_t) {
    return refuse();
  }
  /// No error if the file does not exist.
  virtual Result<> remove(const std::string& /*array*/, const std::string& /*name*/) { return refuse(); }

  /// A new directory, to become the entry `name` of the directory `parent`. Call note_change(parent) afterwards.
  virtual Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& /*parent*/,
                                                              const std::string& /*name*/, mode_t) {
    return refuse();
  }
  /// A new directory, to replace the store itself with exchange_store(). ESTALE.
  virtual Result<std::unique_ptr<NewDirectory>> new_store(mode_t) { return refuse(); }
  /// No other thread may use the store meanwhile.
  virtual Result<> exchange_store(NewDirectory&) { return refuse(); }
  /// Removes a directory with its content. It is gone when this returns, and its content is deleted with the result,
  /// which may take long. After an error it is unchanged.
  virtual Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& /*parent*/,
                                                                 const std::string& /*name*/) {
    return refuse();
  }
  /// Moves a directory; EEXIST instead of replacing one.
  virtual Result<> move(const std::string& /*from_parent*/, const std::string& /*from*/,
                        const std::string& /*to_parent*/, const std::string& /*to*/) {
    return refuse();
  }
  /// Removes what a kill left of directories that were to replace the store itself.
  virtual void remove_leftovers_beside() {}
  /// Records that names in a directory have changed: the next commit makes them durable.
  virtual void note_change(const std::string& /*directory*/) {}
  /// Ordering barrier: earlier changes in a directory become durable before later ones.
  virtual Result<> order(const std::string& /*directory*/) { return {}; }
  /// Ordering barrier for all directories: earlier changes become durable before later ones.
  virtual Result<> order() { return {}; }

  /// Makes durable what was in the store when it was opened: changes of a killed program may exist in the page cache
  /// only. Done once, also by the first commit with changes.
  virtual Result<> sync_inherited() { return {}; }
  /// Makes all earlier changes durable. After an error the next call retries.
  virtual Result<> commit() { return {}; }
  /// The periodic commit, for which no caller waits. False: not done, because it would cost too much.
  virtual Result<bool> commit_at_interval() { return true; }
  /// See Source::is_deleted().
  [[nodiscard]] virtual bool is_deleted() { return false; }
  /// Ends writing: other programs may write now. ESTALE: see Source::finish().
  virtual Result<> end() { return {}; }

 private:
  static std::unexpected<Error> refuse() { return fail(EROFS, "datasets in object stores are read-only"); }
};

}  // namespace codecfs::zarr
