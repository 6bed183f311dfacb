#pragma once
// A trial of one plugin library, for its author: it is loaded in the sandbox, as a mount would do, and tried in both
// directions on sample chunks of each type.

#include <string>

#include "base/result.h"

namespace codecfs::filters {

struct PluginTrial {
  std::string text;       // the report: lines
  bool is_right = false;  // the library would be used, each chunk was decoded to its size, and no call ended a worker
};

/// Tries the library at `path`. `parameters`: of its HDF5 filter as in a filter spec ("9,2.5f"), or the JSON of its
/// codec; empty: none. A loss of precision is reported, and is right. EINVAL for parameters that cannot be understood;
/// the reason if the library cannot be loaded, or is none: ENOEXEC, EIO, ENOENT.
Result<PluginTrial> try_plugin(const std::string& path, const std::string& parameters);

}  // namespace codecfs::filters
