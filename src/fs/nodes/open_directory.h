#pragma once
// An open directory: what the kernel's handle of one stands for.

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// The entries of a group are read at open; chunks are looked up as the reader proceeds.
struct OpenDirectory {
  Place place;
  std::optional<Nodes::Hold> hold;       // of place.node
  std::vector<Entry> entries;            // of a group or folder
  std::vector<std::string> names;        // the names in this view, if they differ from those of the entries
  uint64_t changes = 0;                  // Dataset::changes() when the entries were read
  VariableViewPtr variable;              // of a variable
  std::atomic<bool> outdated = false;    // another program has replaced the source since
  std::atomic<int64_t> undescribed = 0;  // entries that will still be listed with attributes
};

/// One name that a directory shows.
struct DirectoryItem {
  std::string name;
  off_t next = 0;   // position of the next item
  mode_t type = 0;  // S_IFREG, S_IFDIR or S_IFLNK
  Ino ino = 0;      // 0 if it has no inode number yet
  /// The attributes of the item; empty if they are expensive. Valid during the call that gives the item.
  std::function<Result<struct stat>()> attributes;
};

}  // namespace codecfs::fs
