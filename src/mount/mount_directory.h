#pragma once
// -o mkdir: a mount point that comes with the mount and goes with it.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::mount {

class MadeDirectories {
 public:
  MadeDirectories() = default;
  /// Makes those parts of an absolute path that are missing. The errors of mkdir(2), with nothing made.
  static Result<MadeDirectories> make(const std::string& path);
  MadeDirectories(MadeDirectories&& other) noexcept : made_(std::exchange(other.made_, {})) {}
  MadeDirectories& operator=(MadeDirectories&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~MadeDirectories() { remove(); }

  /// Those that were made, as far as they are empty.
  void remove();

 private:
  struct Made {
    UniqueFd parent;  // stays the directory that it was made in, whatever the path leads to later
    std::string name;
  };
  std::vector<Made> made_;  // the outermost first
};

}  // namespace codecfs::mount
