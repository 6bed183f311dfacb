// Recovery of the log beside a file that is not mounted: for `codecfs check`, `codecfs recover` and the process that
// survives a crash.

#include <filesystem>

#include "backends/api/source_check.h"
#include "backends/api/written_sources.h"
#include "backends/hdf5/hdf5_source.h"
#include "backends/hdf5/wal/survivor.h"
#include "backends/hdf5/wal/write_log.h"

namespace codecfs {
namespace {

std::string describe_recovery(const std::string& path, const hdf5::LogRecovery& found) {
  if (!found.pending) return fmt::format("{}: no changes were pending", path);
  return fmt::format("{}: {} committed change{} recovered ({} bytes)", path, found.transactions,
                     found.transactions == 1 ? " was" : "s were", found.bytes);
}

void await_survivor(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (!error) hdf5::await_survivor(real.string());
}

}  // namespace

Result<SourceCheck> check_hdf5_log(const std::string& path) {
  await_survivor(path);
  CODECFS_ASSIGN(const hdf5::LogRecovery found, hdf5::check_log(path));
  if (!found.pending) return SourceCheck{.text = fmt::format("{}: no changes are pending", path)};
  return SourceCheck{.has_pending = true,
                     .text = fmt::format("{}: {} committed change{} pending ({} bytes)", path, found.transactions,
                                         found.transactions == 1 ? " is" : "s are", found.bytes)};
}

Result<std::string> recover_hdf5_log(const std::string& path) {
  await_survivor(path);
  CODECFS_ASSIGN(const hdf5::LogRecovery found, hdf5::recover_log(path));
  return describe_recovery(path, found);
}

// Only HDF5 files have a log.
Result<std::string> recover_after_crash(int source, int log) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", source), error);
  CODECFS_ASSIGN(const hdf5::LogRecovery found, hdf5::recover_as_survivor(source, log));
  return describe_recovery(path.string(), found);
}

}  // namespace codecfs
