#pragma once
// Changes to a store that is a directory.
//
//   write:             create .NAME.codecfs-PID-N -> write -> fsync it -> rename it to NAME
//   remove:            unlink
//   new_directory:     see temporary_directory.h
//   remove_directory:  rename it to .NAME.codecfs-PID-N -> fsync the parent -> delete it recursively
//   move:              rename
//   commit:            fsync every directory in which names were changed, which makes the changes durable. The first
//                      commit syncs the filesystem, as the directories that a killed program changed are unknown
//
// A file is synced before its rename and not at the commit, because a directory may reach the disk at any time after
// the rename. This also overlaps disk writes with the encoding of other chunks. A new directory is made durable
// together with its new parents, up to the array's. A kill leaves temporary names, which are never shown; a program
// with the exclusive lock removes them from a directory when it first writes to it or to a descendant.
//
// A chunk file that is a symbolic link (git-annex, DataLad) is replaced by a file; the link's target does not change.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backends/zarr/store/directory_store.h"
#include "backends/zarr/store/store_lock.h"
#include "backends/zarr/store/store_writer.h"
#include "backends/zarr/store/temporary_directory.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

/// ".0.1.codecfs-4711-12": the name of the file, the process id and a number unique in this process.
std::string temporary_name_of(std::string_view name, uint64_t number);
bool is_temporary_name(std::string_view name);
/// Removes temporary names that a kill left for `name` in a directory. No other program may be writing `name`.
void remove_leftovers_of(FileIo& io, const File& directory, const std::string& name);
/// The path with links resolved; unchanged if it does not exist.
std::string real_path(const std::string& path);

class DirectoryWriter final : public StoreWriter {
 public:
  /// Takes the shared lock of the store. `store`, opened by `path`, and `io` must outlive this object.
  DirectoryWriter(DirectoryStore& store, const std::string& path, FileIo& io);

  Result<> begin() override { return lock_.make_exclusive(); }
  Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) override;
  Result<> write_parts(const std::string& array, const std::string& name, std::span<const StorePart> parts,
                       mode_t mode) override;
  Result<> remove(const std::string& array, const std::string& name) override;
  Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& parent, const std::string& name,
                                                      mode_t mode) override;
  Result<std::unique_ptr<NewDirectory>> new_store(mode_t mode) override;
  /// As StoreWriter::exchange_store(); the lock is then on the new directory.
  Result<> exchange_store(NewDirectory& directory) override;
  Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& parent, const std::string& name) override;
  Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                const std::string& to) override;
  void remove_leftovers_beside() override;
  void note_change(const std::string& directory) override { note_change(directory, ""); }
  Result<> order(const std::string& directory) override { return sync_directory(directory); }
  Result<> order() override { return commit(); }
  Result<> sync_inherited() override;
  Result<> commit() override;
  Result<bool> commit_at_interval() override;
  Result<> end() override {
    lock_.make_shared();
    return {};
  }

 private:
  Result<> write_content(const File& file, std::span<const StorePart> parts);
  Result<File> holder_of_store() const;
  Result<std::unique_ptr<NewDirectory>> new_directory(const File& parent, const std::string& name, mode_t mode);
  Result<File> directory_for(const std::string& array, std::string_view below);
  void remove_leftovers(const File& directory, const std::string& key);
  void remove_leftovers_above(const std::string& key);
  Result<File> directory_to_change(const std::string& key);
  std::string temporary_name(std::string_view name);
  Result<std::pair<File, std::string>> create_temporary(const File& directory, std::string_view name, mode_t mode);
  Result<> sync_directory(const std::string& key);
  void note_change(const std::string& array, std::string_view below);

  DirectoryStore& store_;
  std::string path_;  // of the store, with links resolved
  FileIo& io_;
  StoreLock lock_;
  std::atomic<uint64_t> temporaries_ = 0;  // number of temporary names so far: the N of the next

  Mutex leftovers_mutex_;  // held while a directory is searched
  std::set<std::pair<dev_t, ino_t>> cleared_ CODECFS_GUARDED_BY(leftovers_mutex_);  // directories without leftovers
  // Keys whose ancestors have no leftovers.
  std::set<std::string> cleared_above_ CODECFS_GUARDED_BY(leftovers_mutex_);

  Mutex inherited_mutex_;  // held while the filesystem is synced
  bool is_inherited_synced_ CODECFS_GUARDED_BY(inherited_mutex_) = false;

  // Held during a commit, so that waiting calls find it done.
  Mutex commit_mutex_{LockRank::directory_commit};
  Mutex changed_mutex_;
  std::set<std::string> changed_ CODECFS_GUARDED_BY(changed_mutex_);  // keys of directories that must be synced
};

}  // namespace codecfs::zarr
