#pragma once
// A store that is a directory. Follows symbolic links, as other tools do. Holds one descriptor.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/zarr/store/store.h"
#include "base/file_io.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::zarr {

class DirectoryStore final : public Store {
 public:
  static Result<DirectoryStore> open(const std::string& path);
  static Result<DirectoryStore> open(const File& directory);
  /// Replaces the store's directory; no other thread may use the store meanwhile. status() does not change.
  void move_to(DirectoryStore& other) { root_ = std::move(other.root_); }

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override;
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override;
  [[nodiscard]] bool passes_link(const std::string& key) const override;
  [[nodiscard]] Result<std::optional<std::string>> link_text(const std::string& key) const override;
  [[nodiscard]] std::optional<std::string> key_of(const std::string& path) const override;
  [[nodiscard]] Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const override;
  [[nodiscard]] Result<std::optional<UniqueFd>> open_plain(const std::string& key) const override;
  [[nodiscard]] Result<std::shared_ptr<const StoredFile>> open_file(const std::string& key) const override;
  [[nodiscard]] Result<> check_absence(const std::string& key, const std::string& beside) const override;
  [[nodiscard]] Result<> may_change(const std::string& key) const override;
  Result<> for_each(const std::string& key,
                    const std::function<Result<>(const char* name, EntryType type)>& visit) const override;
  [[nodiscard]] Result<std::unique_ptr<Store>> below(const std::string& key) const override;

  /// Opens a directory to change its entries; messages show its key. ENOENT, ENOTDIR.
  [[nodiscard]] Result<File> directory(const std::string& key) const;

 private:
  UniqueFd root_;
  struct stat status_ = {};
};

}  // namespace codecfs::zarr
