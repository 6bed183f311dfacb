#pragma once
// The entries of an archive that a commit writes, as they are at one moment.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/zarr/store/zip_rewrite.h"
#include "backends/zarr/store/zip_tree.h"

namespace codecfs::zarr {

class ZipSnapshot {
 public:
  ZipSnapshot() = default;
  static ZipSnapshot of(const ZipTree& tree) CODECFS_REQUIRES_SHARED(tree.mutex);

  /// Archived entries by their order in the archive, which is fastest to copy; then the new ones.
  [[nodiscard]] const std::vector<NewZipEntry>& entries() const { return entries_; }
  /// The archive that they replace.
  [[nodiscard]] const std::shared_ptr<const ZipArchive>& archive() const { return archive_; }
  /// The files and directories of the entries have these places in a new archive. The caller must hold ZipTree::mutex
  /// exclusively.
  void move_to(const std::shared_ptr<const ZipArchive>& archive, const std::vector<ZipEntry>& places);

 private:
  void collect(const ZipDirectory& directory, const std::string& path, const ZipTree& tree, mode_t mode);
  void sort();

  std::vector<NewZipEntry> entries_;
  std::vector<ZipMember> owners_;  // of each
  std::shared_ptr<const ZipArchive> archive_;
};

}  // namespace codecfs::zarr
