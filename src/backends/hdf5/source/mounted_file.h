#pragma once
// A mounted HDF5 file: the SourceFile with the tree of its objects and the dimensions of netCDF-4.

#include <optional>
#include <string>

#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "backends/hdf5/source/source_file.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::hdf5 {

struct MountedFile {
  MountedFile() = default;
  ~MountedFile();
  MountedFile(const MountedFile&) = delete;
  MountedFile& operator=(const MountedFile&) = delete;

  /// Opens the file once. `io` must outlive this object. The errors of open_hdf5().
  Result<> open(const std::string& path, bool may_write, FileIo& io);
  /// As open(), in a process that another one continues. `journal`: see NodeJournal; SharedState and the recorder are
  /// set before.
  Result<> resume(const std::string& path, bool may_write, UniqueFd journal, FileIo& io);
  /// Closes the file after a last commit: in libhdf5, which writes more metadata that is part of the state that other
  /// programs must find, and its log. No object of it may be in use. `committed`: the result of that commit.
  Result<> finish(const Result<>& committed);

  /// libhdf5's identifier of the file has changed. Under the LibraryLock.
  void use_reopened();
  /// EROFS with the reason.
  [[nodiscard]] Result<> writable() const;

  SourceFile file;
  bool is_netcdf = false;
  std::optional<ObjectTree> tree;        // guarded by the LibraryLock
  std::optional<Dimensions> dimensions;  // guarded by the LibraryLock

 private:
  [[nodiscard]] std::optional<Error> why_not_writable(bool may_write) const;
  void warn_of_damage(const std::string& path) const;
  [[nodiscard]] Result<> check_root(const std::string& path) const;
};

}  // namespace codecfs::hdf5
