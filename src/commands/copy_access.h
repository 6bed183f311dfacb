#pragma once
// The readers of a copy of a dataset: only users that may read all of the dataset.

#include <string>

#include "base/result.h"

namespace codecfs::commands {

/// Opens a complete copy, a private file or directory, to other users, as far as umask permits and each file and
/// directory of the source gives them access. A source with an access control list makes a private copy, and an object
/// store gives no permissions to follow.
Result<> open_to_readers(const std::string& copy, const std::string& source);

}  // namespace codecfs::commands
