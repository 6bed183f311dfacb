#pragma once
// Owns an open directory.

#include <dirent.h>

#include <memory>

namespace codecfs {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
/// Null if the directory could not be opened.
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

}  // namespace codecfs
