#pragma once
// What all parts of the backend know of the mounted file.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/hdf5/handle.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

class Dataset;

struct SourceFile {
  std::string path;               // absolute, symlinks resolved
  std::string directory;          // that holds it
  std::string working_directory;  // of the process when the file was opened
  UniqueFd fd;                    // for pread of chunks, past libhdf5
  struct stat status{};           // when it was opened
  Handle file;

  // The numbers of the stored chunks of the sparse variable that is being listed; of one variable at a time. Guarded by
  // the LibraryLock.
  std::shared_ptr<const std::vector<uint64_t>> listing;
  const Dataset* listing_owner = nullptr;

  /// The directory of a file that the source names with a relative name: the source's own where it is there, else the
  /// working directory.
  [[nodiscard]] const std::string& prefix_for(const std::string& name) const {
    struct stat found{};
    return stat((directory + "/" + name).c_str(), &found) == 0 ? directory : working_directory;
  }
};

}  // namespace codecfs::hdf5
