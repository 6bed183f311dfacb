#include "backends/zarr/source/access.h"

#include <sys/stat.h>

#include "backends/zarr/source/hierarchy.h"

namespace codecfs::zarr {

Result<Access> access_of(const Hierarchy& hierarchy, const Object& object) {
  const Store& store = hierarchy.store();
  CODECFS_ASSIGN(const auto directory, store.stat(object.key));
  CODECFS_ASSIGN(const auto file, store.stat(join_key(object.key, hierarchy.file_of(object.kind))));
  if (!directory) return fail(ENOENT, "{}: no longer exists", object.key);
  const mode_t entered = directory->st_mode & ((directory->st_mode & 0111) * 06);
  Access access{directory->st_uid, directory->st_gid, entered & 0666};
  if (!file) return access;
  access.mode &= file->st_mode | 0222;
  if (file->st_uid != directory->st_uid) access = {file->st_uid, file->st_gid, access.mode & file->st_mode};
  if (file->st_gid != access.group) access.mode &= ~mode_t{060} | (file->st_mode & 06) << 3;
  return access;
}

Result<Modes> modes_for_members(const Hierarchy& hierarchy, const std::string& group) {
  const Store& store = hierarchy.store();
  CODECFS_ASSIGN(const auto directory, store.stat(group));
  if (!directory) return fail(ENOENT, "{}: no longer exists", group.empty() ? "the root" : group.c_str());
  CODECFS_ASSIGN(const auto file, store.stat(join_key(group, hierarchy.file_of(EntryKind::group))));
  return Modes{.directory = directory->st_mode & 07777, .file = (file ? file->st_mode : directory->st_mode) & 0666};
}

}  // namespace codecfs::zarr
