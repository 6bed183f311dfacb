#pragma once
// How the process that runs libhdf5, which has no network, asks the daemon for bytes of a file in an object store: it
// takes a slot of shared memory, sends its number with the range over WorkerProcess::control, and waits for the result
// in the slot. The bytes arrive in a SharedMirror.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/hdf5/wal/fetched_file.h"
#include "base/result.h"
#include "base/rpc/message.h"
#include "base/shared_mirror.h"
#include "base/unique_fd.h"
#include "remote/range_plan.h"

namespace codecfs::worker {

/// Shared memory of the daemon and one process. The daemon only writes.
struct FetchSlots {
  enum State : uint32_t { free, taken, done };
  struct Slot {
    std::atomic<uint32_t> state = free;
    std::atomic<int32_t> error = 0;  // errno; 0: the bytes have arrived
    std::array<char, 504> reason{};  // as a C string
  };
  std::array<Slot, 128> slots;
};

/// Slots in a new file in memory. ENOMEM.
Result<UniqueFd> make_fetch_slots();
/// Null if they cannot be mapped.
std::shared_ptr<FetchSlots> map_fetch_slots(int fd);
/// For the daemon: writes the result and wakes the waiting thread.
void answer_fetch(FetchSlots& slots, uint32_t slot, const Result<>& result);

/// Sent by Note::fetch.
struct FetchRequest {
  uint64_t slot = 0;
  remote::ByteRange range;
};

/// The file as the process reads it. Thread-safe.
class FetchedMirror final : public hdf5::FetchedFile {
 public:
  static constexpr uint64_t kMax = uint64_t{8} << 20;  // bytes of a request

  FetchedMirror(SharedMirror mirror, std::shared_ptr<FetchSlots> slots, int control)
      : mirror_(std::move(mirror)), slots_(std::move(slots)), control_(control) {}
  [[nodiscard]] int fd() const override { return mirror_.content().get(); }
  Result<> read(uint64_t offset, MutableBytes to) override;

 private:
  Result<> request(const remote::ByteRange& range);

  const SharedMirror mirror_;
  const std::shared_ptr<FetchSlots> slots_;
  const int control_;
};

}  // namespace codecfs::worker

template <>
inline constexpr bool codecfs::rpc::is_plain<codecfs::worker::FetchRequest> = true;
