#include <fmt/format.h>
#include <hdf5.h>

#include "backends/api/newer_format.h"

namespace codecfs {
namespace {

struct LibraryVersion {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
};

LibraryVersion library_version() {
  LibraryVersion version;
  H5get_libversion(&version.major, &version.minor, &version.release);
  return version;
}

}  // namespace

std::string hdf5_version() {
  const LibraryVersion version = library_version();
  return fmt::format("libhdf5 {}.{}.{}", version.major, version.minor, version.release);
}

std::string newer_hdf5_reason(std::string_view what) {
  // These have HDF5 2.
  const char* const remedy = library_version().major < 2 ? "use the portable program or wheel" : "use a newer codecfs";
  return fmt::format("written by a newer HDF5 ({}); this codecfs has {}: {}", what, hdf5_version(), remedy);
}

}  // namespace codecfs
