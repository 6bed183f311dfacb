// Creates an empty HDF5 file, which may be netCDF-4 from the start.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "backends/hdf5/hdf5_source.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/open_file_name.h"
#include "base/file_io.h"
#include "version.h"

namespace codecfs {
namespace {

using hdf5::fail_library;
using hdf5::Handle;

constexpr mode_t kMode = 0666;  // before the umask

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Sets the attribute that identifies the file as netCDF-4 and names the libraries that created it.
Result<> mark_as_netcdf(hid_t file) {
  unsigned version[3] = {};
  H5get_libversion(&version[0], &version[1], &version[2]);
  const std::string text =
      fmt::format("version=2,codecfs=" CODECFS_VERSION ",hdf5={}.{}.{}", version[0], version[1], version[2]);
  const Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), text.size());
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attribute(H5Acreate2(file, "_NCProperties", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute || H5Awrite(attribute.get(), type.get(), text.data()) < 0)
    return fail_library(EIO, "attribute _NCProperties");
  return {};
}

// By default the newest format version that libhdf5 1.8 reads, as netCDF-C chooses it.
Result<> write_empty(const std::string& path, bool as_netcdf, bool latest) {
  const hdf5::LibraryLock lock;
  constexpr unsigned kOrdered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  const Handle creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_fapl_sec2(access.get());
  H5Pset_libver_bounds(access.get(), latest ? H5F_LIBVER_LATEST : H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  H5Pset_link_creation_order(creation.get(), kOrdered);
  H5Pset_attr_creation_order(creation.get(), kOrdered);
  H5Pset_obj_track_times(creation.get(), false);
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  if (!file) return fail_library(EIO, "{}", path);
  if (as_netcdf) CODECFS_TRY(mark_as_netcdf(file.get()));
  if (!file.close()) return fail_library(EIO, "{}: closing it", path);
  return {};
}

}  // namespace

Result<> create_hdf5(const std::string& path, bool as_netcdf, bool latest) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) return fail_errno(EEXIST, "{}", path);
  FileIo& io = real_file_io();
  CODECFS_ASSIGN(const File directory, open_directory(directory_of(path)));
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string temporary = fmt::format(".codecfs-new-{}", ::getpid());
  (void)io.unlink(directory, temporary);  // left by a process that was killed
  const mode_t mask = ::umask(0);
  ::umask(mask);
  CODECFS_ASSIGN(const File made, io.create(directory, temporary, kMode & ~mask));
  Result<> result = write_empty(hdf5::name_of_open(made), as_netcdf, latest);
  if (result) result = io.sync(made);
  if (result) result = check_name(directory, temporary, made);
  if (result) result = io.move(directory, temporary, directory, name);
  if (!result) {
    (void)io.unlink(directory, temporary);
    return result;
  }
  return io.sync(directory);
}

}  // namespace codecfs
