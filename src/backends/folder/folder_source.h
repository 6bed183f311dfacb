#pragma once
// A folder as a Source. A dataset in it, recognised by its content, is a group (or variable) with all its members;
// other directories are folders, and all other files are shown unchanged. See backends/api/source.h for the interface.
//
// A dataset is opened when one of its objects is first accessed, and handles all changes in it. The folder itself is
// read-only: list() and find() show what other programs create, move and remove in it.

#include <memory>
#include <string>

#include "backends/api/source.h"
#include "backends/folder/folder_files.h"
#include "base/result.h"

namespace codecfs {

/// Opens the folder at a path, which must not be a dataset itself.
Result<std::unique_ptr<Source>> open_folder(const std::string& path, folder::DatasetOpener opener, bool may_write);
/// Another kind of folder.
Result<std::unique_ptr<Source>> open_folder(std::unique_ptr<folder::FolderFiles> files, bool may_write);

}  // namespace codecfs
