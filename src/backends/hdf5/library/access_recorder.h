#pragma once
// libhdf5 may crash on damaged metadata or loop forever (1.10: hdf5 issues 1707, 5375). So it runs in a process of its
// own, which records what libhdf5 accesses next, as the last such process tells the next one what to leave out.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backends/api/newer_format.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/worker_process.h"

namespace codecfs::hdf5 {

/// Stands for the attributes of the object at an address; addresses in files are smaller.
constexpr uint64_t attributes_of_object(uint64_t address) { return address | uint64_t{1} << 63; }
constexpr uint64_t object_of(uint64_t address) { return address & ~(uint64_t{1} << 63); }

/// Must be asked before each access. Thread-safe.
class AccessRecorder {
 public:
  /// find_newer_form() of the file.
  using FindNewer = std::function<std::optional<std::string>(uint64_t address, bool has_failed)>;

  AccessRecorder() = default;
  /// `damaged`: what must not be accessed, and why, by address. If a newer HDF5 wrote any of it, others are looked for
  /// before libhdf5 fails on them, as the process ends with each failure.
  AccessRecorder(std::unordered_map<uint64_t, Error> damaged, FindNewer find_newer);

  /// The object at this address: its header, and the links of a group.
  [[nodiscard]] Result<> object(uint64_t address) const {
    note_access(address);
    const auto known = damaged_.find(address);
    if (known != damaged_.end()) return std::unexpected(known->second);
    return looks_ahead_ ? look_ahead(address) : Result<>();
  }
  /// The attributes of the object at this address. object() must be called before they are accessed otherwise.
  [[nodiscard]] Result<> attributes(uint64_t address) const { return object(attributes_of_object(address)); }
  /// kNewerFormat if a newer HDF5 wrote it: to be asked where libhdf5 has failed.
  [[nodiscard]] Result<> check_version(uint64_t address) const;

 private:
  [[nodiscard]] Result<> look_ahead(uint64_t address) const;

  const std::unordered_map<uint64_t, Error> damaged_;
  const FindNewer find_newer_;  // may be null
  const bool looks_ahead_ = false;
  mutable Mutex mutex_;
  mutable std::unordered_set<uint64_t> sound_ CODECFS_GUARDED_BY(mutex_);  // addresses of what was looked at
};

}  // namespace codecfs::hdf5
