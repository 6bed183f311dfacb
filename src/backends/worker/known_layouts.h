#pragma once
// How the chunks of variables are laid out and encoded, as the process with libhdf5 last described it. Thread-safe.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/api/object.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/worker/worker_client.h"
#include "base/lru_map.h"
#include "base/result.h"

namespace codecfs::worker {

class KnownLayouts {
 public:
  using Named = std::pair<std::string, hdf5::ChunkLayout>;  // with the path of the variable
  using Pointer = LruMap<uint64_t, Named>::Pointer;

  explicit KnownLayouts(WorkerClient& client) : client_(client) {}

  /// The layout with this number (hdf5::StoredPlaces::layout). Null if the variable has another one by now.
  Result<Pointer> numbered(ObjectId variable, uint64_t number);
  /// With which the daemon encodes chunks; null if the process encodes them. `changes`: a number that changes with the
  /// tree and with the pipelines.
  Result<Pointer> for_writing(ObjectId variable, uint64_t changes);

 private:
  struct Present {
    uint64_t number = 0;
    bool is_direct = false;
    Pointer layout;
  };
  Result<Present> ask(ObjectId variable);

  static constexpr size_t kMax = 1024;

  WorkerClient& client_;
  LruMap<uint64_t, Named> layouts_{kMax};
  LruMap<ObjectId, std::pair<uint64_t, Pointer>> encoders_{kMax};  // `changes` and what for_writing() returned then
};

}  // namespace codecfs::worker
