// Atomically creates an empty store: a directory or an archive with the metadata of a group.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backends/api/nczarr_texts.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_writer.h"
#include "backends/zarr/store/object_writer.h"
#include "backends/zarr/store/temporary_directory.h"
#include "backends/zarr/store/zip_rewrite.h"
#include "backends/zarr/store/zip_writer.h"
#include "remote/object_client.h"

namespace codecfs {
namespace {

/// The location of a new store.
struct Place {
  File parent;
  std::string name;
  std::string temporary_name;
  mode_t mask;  // the umask
};

Result<Place> new_place(const std::string& path) {
  const std::string without_slash = path.substr(0, path.find_last_not_of('/') + 1);
  const size_t slash = without_slash.rfind('/');
  std::string name = without_slash.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.empty() || name == "." || name == "..") return fail(EEXIST, "{}: exists", path);
  const std::string holder = slash == std::string::npos ? "." : without_slash.substr(0, std::max<size_t>(slash, 1));
  CODECFS_ASSIGN(File parent, open_directory(holder));
  struct stat status;
  if (::fstatat(parent.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
    return fail(EEXIST, "{}: exists", path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  std::string temporary = zarr::temporary_name_of(name, 0);
  return Place{
      .parent = std::move(parent), .name = std::move(name), .temporary_name = std::move(temporary), .mask = mask};
}

/// Writes the content of the new archive `file`.
Result<> write_empty_zip(const Place& place, const File& file) {
  FileIo& io = real_file_io();
  CODECFS_ASSIGN(const auto spill, zarr::SpillFile::make(io, place.parent, zarr::temporary_name_of(place.name, 1)));
  const std::string group = zarr::print_group();
  CODECFS_ASSIGN(zarr::SpilledPtr bytes, spill->append(std::as_bytes(std::span(group))));
  std::vector<zarr::NewZipEntry> entries;
  entries.push_back({.name = zarr::kGroupFile, .bytes = std::move(bytes), .mode = 0666 & ~place.mask});
  CODECFS_TRY(zarr::write_zip(io, file, entries, {}));
  return io.sync(file);
}

/// The metadata files of the root.
using Files = std::vector<std::pair<const char*, std::string>>;

Result<Files> nczarr_files() {
  CODECFS_ASSIGN(std::string zattrs, nczarr_texts::group_zattrs({}, true));
  return Files{{zarr::kAttributesFile, std::move(zattrs)}, {zarr::kGroupFile, zarr::print_group()}};
}

Result<> create_directory(const std::string& path, const Files& files) {
  CODECFS_ASSIGN(Place place, new_place(path));
  CODECFS_ASSIGN(auto fresh, zarr::TemporaryDirectory::make(real_file_io(), std::move(place.parent),
                                                            place.temporary_name, 0777 & ~place.mask));
  for (const auto& [name, text] : files)
    CODECFS_TRY(fresh.write(name, std::as_bytes(std::span(text)), 0666 & ~place.mask));
  CODECFS_TRY(fresh.place(place.name));
  return zarr::sync_names(real_file_io(), fresh.parent());
}

}  // namespace

Result<> create_zarr(const std::string& path) {
  return create_directory(path, {{zarr::kGroupFile, zarr::print_group()}});
}

Result<> create_nczarr(const std::string& path) {
  CODECFS_ASSIGN(const Files files, nczarr_files());
  return create_directory(path, files);
}

Result<> create_zarr3(const std::string& path) {
  return create_directory(path, {{zarr::kZarr3File, zarr::print_zarr3_group()}});
}

Result<bool> create_zarr_objects(remote::ObjectClient& client, const std::string& key, bool is_v3) {
  return is_v3 ? zarr::create_in_object_store(client, key, zarr::kZarr3File, zarr::print_zarr3_group())
               : zarr::create_in_object_store(client, key, zarr::kGroupFile, zarr::print_group());
}

Result<bool> create_nczarr_objects(remote::ObjectClient& client, const std::string& key) {
  CODECFS_ASSIGN(const Files files, nczarr_files());
  CODECFS_ASSIGN(const bool is_new, zarr::create_in_object_store(client, key, zarr::kGroupFile, zarr::print_group()));
  if (!is_new) return false;
  const std::string prefix = key.empty() || key.ends_with('/') ? key : key + "/";
  for (const auto& [name, text] : files)
    if (name != std::string_view(zarr::kGroupFile))
      CODECFS_TRY(client.put(prefix + name, std::as_bytes(std::span(text)), {.is_new = true, .etag = {}}));
  return true;
}

Result<> create_zarr_zip(const std::string& path) {
  CODECFS_ASSIGN(const Place place, new_place(path));
  FileIo& io = real_file_io();
  CODECFS_ASSIGN(const File file, io.create(place.parent, place.temporary_name, 0666 & ~place.mask));
  Result<> made = write_empty_zip(place, file);
  if (made) made = check_name(place.parent, place.temporary_name, file);
  if (made) made = io.move(place.parent, place.temporary_name, place.parent, place.name);
  if (!made) {
    (void)io.unlink(place.parent, place.temporary_name);
    return made;
  }
  return zarr::sync_names(io, place.parent);
}

}  // namespace codecfs
