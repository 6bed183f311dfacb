#include "backends/zarr/hierarchy.h"

#include <algorithm>

#include "backends/zarr/directory_writer.h"
#include "base/log.h"

namespace codecfs::zarr {
namespace {

/// What makes a directory a group; the second is what NCZarr 4.8.0 writes.
constexpr const char* kGroupFiles[] = {kGroupFile, ".nczgroup"};

/// Files that a group may have: they go with it. The last three are those of NCZarr 4.8.0.
constexpr std::string_view kOwnFiles[] = {".zgroup", ".zattrs", ".zmetadata", ".nczgroup", ".nczarr", ".nczattr"};

}  // namespace

Result<std::optional<EntryKind>> Hierarchy::kind_of(const std::string& key) const {
  if (is_temporary_name(std::string_view(key).substr(key.rfind('/') + 1))) return std::nullopt;
  CODECFS_ASSIGN(const bool is_array, store_.has_file(join_key(key, kArrayFile)));
  if (is_array) return EntryKind::variable;
  for (const char* file : kGroupFiles) {
    CODECFS_ASSIGN(const bool is_group, store_.has_file(join_key(key, file)));
    if (is_group) return EntryKind::group;
  }
  return std::nullopt;
}

Result<> Hierarchy::for_each(const std::string& group,
                             const std::function<bool(std::string_view, EntryKind)>& visit) const {
  bool goes_on = true;
  return store_.for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (!goes_on || type == Store::EntryType::other) return {};
    const std::string key = join_key(group, name);
    const auto kind = kind_of(key);
    if (!kind) {  // a link to itself, a directory that may not be entered: not ours, and no reason to hide the rest
      log::warning("{}: left out of the listing: {}", key, kind.error().reason);
      return {};
    }
    if (!*kind) return {};
    if (type == Store::EntryType::unknown) {
      CODECFS_ASSIGN(const bool is_loop, leads_back(group, key));
      if (is_loop) {
        log::warning("{}: left out of the listing: it is a link to a directory that holds it", key);
        return {};
      }
    }
    goes_on = visit(std::string_view(name), **kind);
    return {};
  });
}

Result<bool> Hierarchy::leads_back(const std::string& group, const std::string& key) const {
  CODECFS_ASSIGN(const auto status, store_.stat(key));
  for (std::string above = group; status; above = holder_of(above)) {
    CODECFS_ASSIGN(const auto holder, store_.stat(above));
    if (holder && holder->st_dev == status->st_dev && holder->st_ino == status->st_ino) return true;
    if (above.empty()) break;
  }
  return false;
}

Result<std::optional<std::string>> Hierarchy::read_text(const std::string& key) const {
  CODECFS_ASSIGN(const auto buffer, store_.read(key, kMaxMetadataBytes));
  if (!buffer) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(buffer->data()), buffer->size());
}

Result<> Hierarchy::check_empty(const std::string& group) const {
  return store_.for_each(group, [&](const char* name, Store::EntryType type) -> Result<> {
    if (is_temporary_name(name)) return {};
    const bool is_own = std::ranges::find(kOwnFiles, std::string_view(name)) != std::ranges::end(kOwnFiles);
    if (is_own && type != Store::EntryType::directory) return {};
    const std::string key = join_key(group, name);
    const auto kind = kind_of(key);
    if (kind && *kind) return fail(ENOTEMPTY, "{}: is not empty: {} is in it", group, name);
    return fail(ENOTEMPTY, "{}: the file {} in it is not Zarr's: see what it is, and remove it there first", group,
                name);
  });
}

}  // namespace codecfs::zarr
