#pragma once
// Detects whether another program has changed the metadata files of a group or array, or the members of a group.
// Compares inode, size and times, one of which changes with every way to write a file. Thread-safe.

#include <string>

#include "backends/api/source.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"

namespace codecfs::zarr {

class OutsideChanges {
 public:
  /// Whether anything changed since the last call for this key; true also if that is unknown. Our own changes count
  /// too. Metadata that is read afterwards is at least as new as the compared state.
  bool any(const Store& store, const std::string& key, EntryKind kind);

 private:
  static constexpr size_t kRemembered = 4096;  // objects

  LruMap<std::string, std::string> signatures_{kRemembered};  // by key
};

}  // namespace codecfs::zarr
