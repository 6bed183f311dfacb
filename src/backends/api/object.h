#pragma once
// The objects of a mounted dataset, as the interfaces of a Source name them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace codecfs {

/// Chosen by the backend; stays valid as long as the Source exists. It keeps identifying the same object while that
/// exists, even if it is moved; afterwards calls return ENOENT.
using ObjectId = uint64_t;

/// In a mounted folder (backends/folder), directories are folders, a dataset file is a group (or a variable), and every
/// other file is a file.
enum class EntryKind { group, variable, symlink, folder, file };

/// A member of a group.
struct Entry {
  std::string name;  // as shown: a valid file name, escaped if the source's name is not one (names.h)
  EntryKind kind = EntryKind::group;
  ObjectId object = 0;  // of all but symlinks
  std::string target;   // of symlinks: relative to the directory that holds the entry
};

/// A dimension that a group defines, in formats where arrays refer to dimensions (netCDF).
struct GroupDimension {
  std::string name;
  uint64_t length = 0;
  bool is_unlimited = false;
};

/// The members of a group that netCDF-C knows.
struct NczarrMembers {
  std::vector<std::string> arrays;
  std::vector<std::string> groups;
};

/// A member of a group that cannot be read, so that its kind is not known.
struct UnreadableMember {
  std::string name;  // as Entry::name
  Error error;
};

/// All members of a group.
struct Members {
  std::vector<Entry> entries;
  std::vector<UnreadableMember> unreadable;
};

}  // namespace codecfs
