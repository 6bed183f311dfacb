#pragma once
// libhdf5 may crash on damaged metadata or loop forever (1.10: hdf5 issues 1707, 5375). So it runs in a process of its
// own, which records what libhdf5 accesses next, as the last such process tells the next one what to leave out.

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "base/worker_process.h"

namespace codecfs::hdf5 {

/// Stands for the attributes of the object at an address; addresses in files are smaller.
constexpr uint64_t attributes_of_object(uint64_t address) { return address | uint64_t{1} << 63; }
constexpr uint64_t object_of(uint64_t address) { return address & ~(uint64_t{1} << 63); }

/// Must be asked before each access. Immutable.
class AccessRecorder {
 public:
  AccessRecorder() = default;
  /// `damaged`: what must not be accessed, and why, by address.
  explicit AccessRecorder(std::unordered_map<uint64_t, Error> damaged) : damaged_(std::move(damaged)) {}

  /// The object at this address: its header, and the links of a group.
  [[nodiscard]] Result<> object(uint64_t address) const {
    note_access(address);
    const auto known = damaged_.find(address);
    return known == damaged_.end() ? Result<>() : std::unexpected(known->second);
  }
  /// Its attributes. object() must be called before it is accessed otherwise.
  [[nodiscard]] Result<> attributes(uint64_t address) const { return object(attributes_of_object(address)); }

 private:
  const std::unordered_map<uint64_t, Error> damaged_;
};

}  // namespace codecfs::hdf5
