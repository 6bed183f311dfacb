#pragma once
// A directory under a temporary name. It is filled beside its destination and moved there in one step after its content
// is on the disk: it is never visible partially, not even after a power failure.
//
//   CODECFS_ASSIGN(auto fresh, TemporaryDirectory::make(io, parent, ".v.codecfs-4711-12", 0755));
//   CODECFS_TRY(fresh.write(".zarray", text, 0644));
//   CODECFS_TRY(fresh.place("v"));            // or exchange("v"): then the old content has the temporary name
//
// The destructor deletes the content of the temporary name, and logs a warning if that fails.

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "backends/zarr/store/store_writer.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

class TemporaryDirectory final : public NewDirectory {
 public:
  /// `parent` must not be renamed during the lifetime of this object; `io` must outlive it. EEXIST if the temporary
  /// name exists.
  static Result<TemporaryDirectory> make(FileIo& io, File parent, std::string temporary_name, mode_t mode);
  /// Makes this directory, and the files and directories that are made in it, like those of the same names in the one
  /// that it will replace (base/file_owner.h). Must be called first.
  Result<> make_like(File replaced);
  /// Adopts an existing directory under a temporary name, to delete it.
  static TemporaryDirectory of_removed(FileIo& io, File parent, std::string temporary_name);
  TemporaryDirectory(TemporaryDirectory&&) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() override;

  /// The file is synced.
  Result<> write(const std::string& name, Bytes bytes, mode_t mode) override;
  Result<> make_directory(const std::string& name, mode_t mode) override;

  [[nodiscard]] const File& directory() const { return directory_; }
  [[nodiscard]] const File& parent() const { return parent_; }
  [[nodiscard]] Result<struct stat> parent_status() const override;

  /// Syncs everything and renames it to `name`, which must be free (EEXIST). Durable after a sync of the parent.
  Result<> place(const std::string& name) override;
  /// Syncs everything and exchanges it with an existing directory, atomically and durably. EOPNOTSUPP if the filesystem
  /// does not support that.
  Result<> exchange(const std::string& name) override;

 private:
  TemporaryDirectory(FileIo& io, File parent, File directory, std::string temporary_name, mode_t mode);
  Result<> sync_all();
  Result<> make_like_replaced(const File& made, const std::string& name) const;

  FileIo* io_;
  File parent_;
  File directory_;
  std::string temporary_name_;  // empty: there is no such directory any more
  mode_t mode_;
  File replaced_;                                                 // may have no descriptor
  Mutex mutex_;                                                   // held while directories are created or synced
  std::set<std::string> directories_ CODECFS_GUARDED_BY(mutex_);  // created below this one
};

/// Deletes a file, or a directory recursively; does not follow links. No error if the name does not exist.
Result<> remove_tree(FileIo& io, const File& parent, const std::string& name);

/// Makes a new file or directory like the one of this name in a directory, if there is one of the same kind.
Result<> make_like_existing(const File& made, const File& directory, const std::string& name);

/// Makes the names in a directory durable.
Result<> sync_names(FileIo& io, const File& directory);

/// The names in a directory, without "." and "..".
Result<std::vector<std::string>> names_in(const File& directory);

}  // namespace codecfs::zarr
