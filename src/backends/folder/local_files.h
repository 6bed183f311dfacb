#pragma once
// The files of a directory. Symbolic links are never followed, so no file outside of it is accessed. What codecfs
// creates beside datasets while it writes them is not shown, nor are sockets, FIFOs and devices. Thread-safe.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/folder/folder_files.h"

namespace codecfs::folder {

class LocalFiles final : public FolderFiles {
 public:
  /// ENOENT, EACCES, ENOTDIR.
  static Result<std::unique_ptr<LocalFiles>> open(const std::string& path, DatasetOpener opener);

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override;
  [[nodiscard]] std::string path_of(const std::string& key) const override;
  [[nodiscard]] std::optional<std::string> key_of(const std::string& path) const override;
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override;
  [[nodiscard]] Result<std::optional<Found>> look(const std::string& key) const override;
  [[nodiscard]] Result<Names> list(const std::string& key, const std::optional<std::string>& except) const override;
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& key) const override;
  [[nodiscard]] Result<std::shared_ptr<Source>> open_dataset(const std::string& key, const Found& expected,
                                                             bool may_write) const override;

 private:
  explicit LocalFiles(DatasetOpener opener) : opener_(std::move(opener)) {}
  [[nodiscard]] Result<UniqueFd> directory(std::string_view key, int flags) const;

  [[nodiscard]] Result<std::optional<Found>> look_in(int directory, const std::string& name) const;

  const DatasetOpener opener_;
  std::string path_;  // absolute, without links
  UniqueFd root_;
  struct stat status_ = {};
};

}  // namespace codecfs::folder
