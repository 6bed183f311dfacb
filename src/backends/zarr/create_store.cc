// An empty store: a directory with a .zgroup, there at once or not at all.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "backends/zarr/hierarchy.h"
#include "backends/zarr/metadata_write.h"
#include "backends/zarr/temporary_directory.h"
#include "backends/zarr/zarr_source.h"

namespace codecfs {

Result<> create_zarr(const std::string& path) {
  const std::string without_slash = path.substr(0, path.find_last_not_of('/') + 1);
  const size_t slash = without_slash.rfind('/');
  const std::string name = without_slash.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.empty() || name == "." || name == "..") return fail(EEXIST, "{}: exists", path);
  const std::string holder = slash == std::string::npos ? "." : without_slash.substr(0, std::max<size_t>(slash, 1));
  CODECFS_ASSIGN(File parent, open_directory(holder));
  struct stat status;
  if (::fstatat(parent.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
    return fail(EEXIST, "{}: exists", path);

  const mode_t mask = ::umask(0);
  ::umask(mask);
  CODECFS_ASSIGN(auto fresh, zarr::TemporaryDirectory::make(
                                 real_file_io(), std::move(parent),
                                 fmt::format(".{}.codecfs-{}-0", name.substr(0, 200), ::getpid()), 0777 & ~mask));
  const std::string group = zarr::print_group();
  CODECFS_TRY(fresh.write(zarr::kGroupFile, std::as_bytes(std::span(group)), 0666 & ~mask));
  CODECFS_TRY(fresh.place(name));
  return zarr::sync_names(real_file_io(), fresh.parent());
}

}  // namespace codecfs
