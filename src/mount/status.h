#pragma once
// What running mounts tell about themselves, for `codecfs status` and `codecfs set`. Reads only their control files and
// extended attributes.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/json_value.h"

namespace codecfs::mount {

struct MountStatus {
  std::string path;
  std::string source;
  bool read_only = false;
  std::string unreachable;                                 // why it does not answer; empty: it does
  std::vector<std::pair<std::string, uint64_t>> counters;  // of .codecfs/stats, in its order
  std::vector<std::string> work;                           // "re-encoding /v: 37 %"
  std::vector<std::string> errors;                         // the last lines of its log of level warning or error

  /// 0 if there is no such counter.
  [[nodiscard]] uint64_t counter(const std::string& name) const;
};

/// All mounts of codecfs that this user may access, or the one at `path`: EINVAL if there is none. A mount that does
/// not answer within some seconds is listed as unreachable. Asks in child processes: only for a process that has one
/// thread.
Result<std::vector<MountStatus>> status_of_mounts(const std::optional<std::string>& path);

std::string status_text(const std::vector<MountStatus>& mounts);
Json status_json(const std::vector<MountStatus>& mounts);
/// In the text format of Prometheus: codecfs_up and codecfs_COUNTER with the labels mountpoint and source.
std::string status_prometheus(const std::vector<MountStatus>& mounts);

struct FiltersSet {
  std::string now;       // as user._Filter shows them
  bool is_hdf5 = false;  // they are those of an HDF5 file
};

/// Sets the filters of a variable, or of new variables in a group: user._Filter of `path` in a mount. Shows the
/// progress on a terminal. The error has the reason that the mount gives.
Result<FiltersSet> set_filters(const std::string& path, const std::string& spec);

}  // namespace codecfs::mount
