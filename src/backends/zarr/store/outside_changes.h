#pragma once
// Whether another program has changed what tells of a group or array: its metadata files, and of a group also which
// members it has. Told by inode, size and times, as they are after every way to write a file. Safe from all threads.

#include <string>

#include "backends/api/source.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"

namespace codecfs::zarr {

class OutsideChanges {
 public:
  /// Since this was last asked; true also where that is not known. Changes of our own count too. What is read
  /// afterwards is not older than what was looked at.
  bool any(const Store& store, const std::string& key, EntryKind kind);

 private:
  static constexpr size_t kRemembered = 4096;  // objects

  LruMap<std::string, std::string> signatures_{kRemembered};  // by key
};

}  // namespace codecfs::zarr
