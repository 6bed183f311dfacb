#include "backends/zarr/store/outside_changes.h"

#include <memory>

#include "backends/zarr/metadata/metadata_files.h"

namespace codecfs::zarr {
namespace {

constexpr const char* kMetadataFiles[] = {kArrayFile, kAttributesFile, kGroupFile, ".nczarray", ".nczvar",
                                          ".nczattr", ".nczgroup",     ".nczarr",  kZarr3File};

std::string signature_of(const Store& store, const std::string& key) {
  const auto status = store.stat(key);
  if (!status) return fmt::format("error {};", status.error().code);
  if (!*status) return ";";
  const struct stat& now = **status;
  return fmt::format("{} {} {} {}.{} {}.{};", now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec,
                     now.st_mtim.tv_nsec, now.st_ctim.tv_sec, now.st_ctim.tv_nsec);
}

}  // namespace

bool OutsideChanges::any(const Store& store, const std::string& key, EntryKind kind) {
  std::string now = kind == EntryKind::group ? signature_of(store, key) : std::string();
  for (const char* file : kMetadataFiles) now += signature_of(store, join_key(key, file));
  const auto before = signatures_.get(key);
  if (before != nullptr && *before == now) return false;
  signatures_.put(key, std::make_shared<const std::string>(std::move(now)));
  return true;
}

}  // namespace codecfs::zarr
