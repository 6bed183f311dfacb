#pragma once
// A folder as a Source: what is a dataset in it, by its content, is a group (or variable) with all that it holds; other
// directories are folders, all else are files, as they are. See backends/source.h for the interface.
//
// A dataset is opened when something in it is asked for, and not before. What changes in datasets is done by them; the
// folder itself is only read: what is made, moved and removed in it is seen at the next list() or find().

#include <memory>
#include <string>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs {

/// Opens the folder at a path, which is not to be a dataset itself.
Result<std::unique_ptr<Source>> open_folder(const std::string& path, bool may_write = false);

}  // namespace codecfs
