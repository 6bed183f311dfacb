#pragma once
// Replacing a file by a new one that was written beside it.

#include <string>

#include "base/file_io.h"
#include "base/result.h"

namespace codecfs {

/// A name in a directory, and the open file that it should refer to.
struct NamedFile {
  const std::string& name;
  const File& file;
};

/// Gives the name of the old file to the new one, and removes the old one if it can. Both are in `directory`; durable
/// after sync(directory). ESTALE if another program has put other files in their places, also between a check and the
/// call that follows: then the names are as that program left them.
Result<> replace_file(FileIo& io, const File& directory, const NamedFile& by, const NamedFile& old);

/// Gives a complete file a name at which there is none: the first of rescued_name() that is free. Returns it. Durable
/// after sync(directory).
Result<std::string> name_rescued(FileIo& io, const File& directory, const std::string& draft, const std::string& name);

}  // namespace codecfs
