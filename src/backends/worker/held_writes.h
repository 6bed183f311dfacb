#pragma once
// Changes of chunks that the process has made but not sealed in its log: they are made again if it is killed, or if it
// has undone them because another change failed. Thread-safe.
//
// To seal each change would cost more than to make it, where chunks are small. So small changes are held here, and many
// are sealed at once; a large one is held until its caller has sealed it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backends/api/object.h"
#include "backends/worker/calls.h"
#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::worker {

class HeldWrites {
 public:
  static constexpr size_t kSmall = size_t{1} << 20;  // bytes of a change
  struct Write {
    Call call = call_of<&Source::write_chunk>;
    ObjectId variable = 0;
    uint64_t chunk = 0;
    Bytes bytes;
    std::shared_ptr<const Buffer> owner{};  // of `bytes`; may be null
    // For IsolatedSource::write_encoded().
    std::vector<FilterStage> chain{};
    uint32_t filter_mask = 0;

    /// The arguments of the call.
    void put_in(rpc::Encoder& request) const;
  };
  struct Held {
    uint64_t number = 0;
    Write write;
    uint64_t losses = 0;  // SharedState::losses before it was made
    bool is_confirmed = false;
    bool is_suspect = false;  // it was not confirmed, and could not be made again
    [[nodiscard]] bool is_large() const { return write.bytes.size() > kSmall; }
  };

  /// To be called before the change is made. If it has no owner, a small one is copied, and the bytes of a large one
  /// must stay valid until drop(). ENOMEM.
  Result<uint64_t> add(Write write, uint64_t losses);
  /// The process has made the change. Returns whether it is time to seal.
  bool confirm(uint64_t number);
  /// The process has made the change again. Later changes of the same chunk are out of date now: they must be made
  /// again, too.
  void confirm_again(uint64_t number, uint64_t losses);
  void drop(uint64_t number);
  /// As drop(), if nothing was undone or made out of date since the change was made. Returns whether that holds.
  bool drop_if_current(uint64_t number, uint64_t losses);
  [[nodiscard]] bool is_empty() const;
  /// The changes that were confirmed so far, oldest first.
  [[nodiscard]] std::vector<Held> confirmed() const;

  /// Calls `make` for all of them, oldest first, until one fails. One that is not confirmed is tried once, since it may
  /// be what ends the process; its caller repeats it anyway.
  Result<> make_again(const std::function<Result<>(const Write&)>& make);

 private:
  mutable Mutex mutex_{LockRank::held_writes};
  std::map<uint64_t, Held> held_ CODECFS_GUARDED_BY(mutex_);
  uint64_t latest_ CODECFS_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;  // of the small ones
};

}  // namespace codecfs::worker
