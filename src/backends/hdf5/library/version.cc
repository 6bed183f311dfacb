#include <hdf5.h>

#include "backends/api/source.h"

namespace codecfs {

std::string format_versions() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("libhdf5 {}.{}.{}", major, minor, release);
}

}  // namespace codecfs
