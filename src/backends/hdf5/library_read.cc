#include "backends/hdf5/library_read.h"

#include <hdf5.h>
#include <sys/stat.h>

#include <string>

#include "filters/plugins/plugins.h"

namespace codecfs::hdf5 {
namespace {

/// libhdf5 took its directories from the environment when it was loaded. Of ours it gets those that are there: before
/// 1.14 it gives up at the first one that is not.
void share_plugin_directories() {
  unsigned count = 0;
  if (H5PLsize(&count) < 0) return;
  while (count-- > 0) H5PLremove(count);
  for (const std::string& directory : filters::searched_directories()) {
    struct stat status{};
    if (stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) H5PLappend(directory.c_str());
  }
}

}  // namespace

LibraryRead::LibraryRead() : plugins_(filters::hold_plugins()) {
  static std::once_flag shared;
  std::call_once(shared, share_plugin_directories);
}

}  // namespace codecfs::hdf5
