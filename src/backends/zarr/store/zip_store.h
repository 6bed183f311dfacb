#pragma once
// A store that is a zip archive: at its top, as zarr-python's ZipStore writes it, or in a directory of the archive, as
// netCDF-C does. Uncommitted changes (zip_writer.h) are visible at once.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backends/zarr/store/store.h"
#include "backends/zarr/store/zip_tree.h"

namespace codecfs::zarr {

class ZipStore final : public Store {
 public:
  /// EINVAL if there is no Zarr store in it; errors of ZipArchive::open().
  static Result<std::unique_ptr<ZipStore>> open(const std::string& path);
  /// Opens an archive in an object store, to read. Errors as open() of a path.
  static Result<std::unique_ptr<ZipStore>> open(std::shared_ptr<remote::ObjectFile> object);

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override;
  [[nodiscard]] size_t reads_at_once() const override { return is_remote_ ? 32 : 0; }
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override;
  /// Size in the archive. Without the offset, which only the local header defines.
  [[nodiscard]] Result<std::optional<Stored>> locate(const std::string& key) const override;
  /// Reads the local header.
  [[nodiscard]] Result<std::optional<uint64_t>> offset_of(const std::string& key) const override;
  [[nodiscard]] bool passes_link(const std::string&) const override { return false; }
  [[nodiscard]] Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const override;
  void expect(std::span<const std::string> keys, uint64_t most_bytes) const override;
  /// A compressed file is decompressed completely; the checksum of one that is not is not verified.
  [[nodiscard]] Result<std::shared_ptr<const StoredFile>> open_file(const std::string& key) const override;
  /// An archive can be changed as a whole or not at all.
  [[nodiscard]] Result<> may_change(const std::string& key) const override;
  Result<> for_each(const std::string& key,
                    const std::function<Result<>(const char* name, EntryType type)>& visit) const override;
  [[nodiscard]] Result<std::unique_ptr<Store>> below(const std::string& key) const override;

  [[nodiscard]] ZipTree& tree() const { return *tree_; }
  /// The store's own directory.
  [[nodiscard]] ZipDirectoryPtr root() const CODECFS_REQUIRES_SHARED(tree().mutex);
  /// The result of Store::stat() for a directory.
  [[nodiscard]] struct stat status_of(const ZipDirectory& directory) const CODECFS_REQUIRES_SHARED(tree().mutex);

 private:
  static Result<std::unique_ptr<ZipStore>> open(ZipBytes bytes);
  explicit ZipStore(std::shared_ptr<ZipTree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<ZipTree> tree_;
  ZipDirectoryPtr root_;       // of a store that is a subdirectory of another
  struct stat status_ = {};    // of the archive, or of that subdirectory
  struct stat archived_ = {};  // of the archive at open
  std::optional<Error> unchangeable_;
  bool is_remote_ = false;  // in an object store
};

}  // namespace codecfs::zarr
