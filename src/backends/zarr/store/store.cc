#include "backends/zarr/store/store.h"

namespace codecfs::zarr {

Result<bool> Store::has_file(const std::string& key) const {
  CODECFS_ASSIGN(const auto status, stat(key));
  return status && S_ISREG(status->st_mode);
}

Result<std::optional<Store::Stored>> Store::locate(const std::string& key) const {
  CODECFS_ASSIGN(const auto status, stat(key));
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return Stored{.bytes = static_cast<uint64_t>(status->st_size), .offset = 0};
}

std::string join_key(const std::string& directory, std::string_view name) {
  std::string key;
  key.reserve(directory.size() + 1 + name.size());
  key = directory;
  if (!key.empty()) key += '/';
  key += name;
  return key;
}

std::string holder_of(std::string_view key) {
  const size_t slash = key.rfind('/');
  return std::string(slash == std::string_view::npos ? "" : key.substr(0, slash));
}

std::string name_of(const std::string& key) { return key.substr(key.rfind('/') + 1); }

bool is_at_or_below(std::string_view key, std::string_view directory) {
  if (directory.empty()) return true;
  return key.starts_with(directory) && (key.size() == directory.size() || key[directory.size()] == '/');
}

}  // namespace codecfs::zarr
