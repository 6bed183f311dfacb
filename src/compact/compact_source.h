#pragma once
// Compaction: what `codecfs compact` does, and no mount.

#include <functional>
#include <string>

#include "base/result.h"

namespace codecfs {

/// Removes the unused space of a source that no program has open: writes a new file, syncs it and renames it over the
/// old one. Returns a summary of what was saved. EBUSY; EOPNOTSUPP for content that cannot be copied exactly; the
/// source is then unchanged. ECANCELED: `cancelled` returned true, which it is called for with HDF5 files.
Result<std::string> compact_source(const std::string& path, const std::function<bool()>& cancelled = {});

}  // namespace codecfs
