#pragma once
// Changes to the files and directories of a store, each atomic: whoever reads, also after a kill or a power cut, finds
// the old file or the new one, never part of one; and likewise a directory with all that is in it.
//
//   write:             create .NAME.codecfs-PID-N -> write -> fsync it -> rename it to NAME
//   remove:            unlink
//   new_directory:     see temporary_directory.h
//   remove_directory:  rename it to .NAME.codecfs-PID-N -> fsync where that is -> delete it with all that is in it
//   move:              rename
//   commit:            fsync every directory in which names were changed: from here on they are durable
//
// The file is synced before the rename and not at the commit, as a directory may reach the disk at any time after it.
// It also makes the disk work while other chunks are encoded. A directory that is new is durable with those above it,
// up to the array's. What a kill leaves are temporary names: nothing is called so that is shown, and they are removed
// from a directory when it, or something below it, is first written by a program that has the store for itself.
//
// A chunk file that is a symbolic link (git-annex, DataLad) is replaced by a file; what it pointed to stays as it was.
//
// Safe from all threads, also for changes of the same chunk at once: one of them is the last. But while a directory is
// moved or removed nobody may work on what is in it, or commit.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backends/zarr/directory_store.h"
#include "backends/zarr/store_lock.h"
#include "backends/zarr/temporary_directory.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

/// ".0.1.codecfs-4711-12"
bool is_temporary_name(std::string_view name);

class DirectoryWriter {
 public:
  /// Takes the shared lock of the store. `store` and `io` outlive this.
  DirectoryWriter(const DirectoryStore& store, FileIo& io) : store_(store), io_(io), lock_(store) {}

  /// Takes the right to write: EBUSY where another program has the store open. The others take it as well.
  Result<> begin() { return lock_.make_exclusive(); }
  /// Makes `name` in the directory `array` (a name with slashes lies deeper; directories are made as needed, with the
  /// array's mode) hold `bytes`. `mode`: permissions of the file. EBUSY as StoreLock; ENOSPC, EIO and all else that the
  /// system says, with the old file as it was and nothing new left behind.
  Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode);
  /// No error where there is no such file.
  Result<> remove(const std::string& array, const std::string& name);

  /// A directory to be put into the place `name` of the directory `parent`. note_change(parent) is to follow.
  Result<TemporaryDirectory> new_directory(const std::string& parent, const std::string& name, mode_t mode);
  /// The same outside of the store: `parent` is the directory that holds it.
  Result<TemporaryDirectory> new_directory(const File& parent, const std::string& name, mode_t mode);
  /// A directory with everything in it. It is gone when this returns, and deleted when the result dies, which may take
  /// long. After an error it is as it was.
  Result<TemporaryDirectory> remove_directory(const std::string& parent, const std::string& name);
  /// Moves a directory; never replaces (EEXIST).
  Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                const std::string& to);
  /// Removes what a kill left of directories that were to take the place of the store's own, `name` in `parent`.
  void remove_leftovers_beside(const File& parent, const std::string& name);
  /// Makes the names in a directory durable at once.
  Result<> sync_now(const std::string& directory) { return sync_directory(directory); }
  /// The names in a directory were changed: the next commit makes them durable.
  void note_change(const std::string& directory) { note_change(directory, ""); }
  /// The store's directory was exchanged for another: locks that one from now on.
  void lock_instead(StoreLock& lock) { lock_.take_over(lock); }

  /// What was changed before is durable when this returns. After an error the same directories are synced again by the
  /// next one.
  Result<> commit();
  /// No change follows: others may write.
  void end() { lock_.make_shared(); }

 private:
  Result<File> directory_for(const std::string& array, std::string_view below);
  void remove_leftovers(const File& directory, const std::string& key);
  void remove_leftovers_above(const std::string& key);
  Result<File> directory_to_change(const std::string& key);
  std::string temporary_name(std::string_view name);
  Result<std::pair<File, std::string>> create_temporary(const File& directory, std::string_view name, mode_t mode);
  Result<> sync_directory(const std::string& key);
  void note_change(const std::string& array, std::string_view below);

  const DirectoryStore& store_;
  FileIo& io_;
  StoreLock lock_;
  std::atomic<uint64_t> temporaries_ = 0;  // made so far: the N of the next

  std::mutex leftovers_mutex_;                 // held while a directory is searched
  std::set<std::pair<dev_t, ino_t>> cleared_;  // directories without leftovers; guarded by leftovers_mutex_
  std::set<std::string> cleared_above_;        // keys; what is above them has none; guarded by leftovers_mutex_

  std::mutex commit_mutex_;        // held during a commit: it is over for all that wait for it; before changed_mutex_
  std::mutex changed_mutex_;       // guards changed_
  std::set<std::string> changed_;  // keys of directories to be synced
};

}  // namespace codecfs::zarr
