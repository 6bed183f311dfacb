#pragma once
// A directory under a temporary name. It is built beside its place, and put there in one step when everything in it is
// on the disk: nobody ever finds a part of it, not even after a power cut.
//
//   CODECFS_ASSIGN(auto fresh, TemporaryDirectory::make(io, parent, ".v.codecfs-4711-12", 0755));
//   CODECFS_TRY(fresh.write(".zarray", text, 0644));
//   CODECFS_TRY(fresh.place("v"));            // or exchange("v"): what was there has the temporary name then
//
// What has the temporary name at the end is deleted. What cannot be deleted is left behind with a warning.

#include <sys/types.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/zarr/store/store_writer.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

class TemporaryDirectory final : public NewDirectory {
 public:
  /// `parent` a directory that is not renamed while this lives; `io` outlives it. EEXIST where the temporary name is
  /// taken.
  static Result<TemporaryDirectory> make(FileIo& io, File parent, std::string temporary_name, mode_t mode);
  /// One that is there under a temporary name and is to be deleted at the end.
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

  /// Syncs everything and gives it its name, which must be free (EEXIST). Durable after a sync of the parent.
  Result<> place(const std::string& name) override;
  /// Syncs everything and puts it into the place of a directory, in one step and durably. EOPNOTSUPP where the
  /// filesystem cannot.
  Result<> exchange(const std::string& name) override;

 private:
  TemporaryDirectory(FileIo& io, File parent, File directory, std::string temporary_name, mode_t mode);
  Result<> sync_all();

  FileIo* io_;
  File parent_;
  File directory_;
  std::string temporary_name_;  // empty: there is nothing of that name any more
  mode_t mode_;
  std::mutex mutex_;                   // held while directories are made
  std::set<std::string> directories_;  // below this one; guarded by mutex_
};

/// Deletes a file, or a directory with everything in it; links are not followed. No error where there is nothing.
Result<> remove_tree(FileIo& io, const File& parent, const std::string& name);

/// Makes names in a directory durable.
Result<> sync_names(FileIo& io, const File& directory);

/// The names in a directory, without "." and "..".
Result<std::vector<std::string>> names_in(const File& directory);

}  // namespace codecfs::zarr
