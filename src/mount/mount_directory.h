#pragma once
// -o mkdir: creates the mount point, and removes it after the unmount.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

class MadeDirectories {
 public:
  MadeDirectories() = default;
  /// Creates the missing directories of an absolute path. The errors of mkdir(2); then none is left.
  static Result<MadeDirectories> make(const std::string& path);
  MadeDirectories(MadeDirectories&& other) noexcept : made_(std::exchange(other.made_, {})) {}
  MadeDirectories& operator=(MadeDirectories&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~MadeDirectories() { remove(); }

  /// Removes the created directories as far as they are empty.
  void remove();

 private:
  struct Made {
    UniqueFd parent;  // refers to the directory itself, even if its path changes later
    std::string name;
  };
  std::vector<Made> made_;  // outermost first
};

}  // namespace codecfs::mount
