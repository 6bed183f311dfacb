#pragma once
// State of a mounted file that outlives the process which runs libhdf5: in shared memory, written by that process and
// read by the daemon and by the next such process. All zeros at the beginning.

#include <array>
#include <atomic>
#include <cstdint>

namespace codecfs::hdf5 {

struct SharedState {
  /// Change counters for the locations of a dataset's chunks, by address. A reader loads the counter together with a
  /// location, and again after it has read the bytes without a lock: if the counter changed, the bytes may be another
  /// chunk's. Several variables may share a counter.
  std::array<std::atomic<uint64_t>, 256> generations{};
  [[nodiscard]] static size_t slot_of(uint64_t address) { return address / 8 % 256; }

  /// Incremented before changes of chunks that were not sealed are undone because another change failed.
  std::atomic<uint64_t> losses = 0;

  /// The number of the latest ChunkLayout; never repeated.
  std::atomic<uint64_t> layouts = 0;

  /// Whether the file is netCDF-4, as the first process found: a later one may not read the attributes that tell it.
  enum Netcdf : uint8_t { unknown, no, yes };
  std::atomic<uint8_t> is_netcdf = unknown;

  /// A change of the tree that must not be repeated, as its caller numbers it, and the commit in the log that contains
  /// it: set before that commit is written (0: it is not about to be written).
  std::atomic<uint64_t> edit = 0;
  std::atomic<uint64_t> edit_log = 0;       // LogFile::id()
  std::atomic<uint64_t> edit_sequence = 0;  // of the last frame before the commit frame
  std::atomic<uint64_t> edit_journal = 0;   // bytes of the NodeJournal before it
  std::atomic<uint64_t> edit_done = 0;      // equals `edit` when the commit is written
};

}  // namespace codecfs::hdf5
