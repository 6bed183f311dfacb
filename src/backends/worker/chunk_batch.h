#pragma once
// Small chunks of one variable that the process with libhdf5 stores by one call.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/api/chunk.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/hdf5/source/isolated_source.h"
#include "backends/worker/held_writes.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::worker {

class ChunkBatch {
 public:
  /// A batch of as many of the chunks, from the first on, as can be encoded and are small. `encoder`: null if they are
  /// stored as they are. ENOMEM.
  static Result<ChunkBatch> make(const hdf5::ChunkLayout* encoder, std::span<const NumberedChunk> chunks);

  [[nodiscard]] size_t size() const { return chunks_.numbers.size(); }
  [[nodiscard]] const hdf5::IsolatedSource::ManyChunks& chunks() const { return chunks_; }
  [[nodiscard]] Bytes bytes() const { return bytes_->bytes(); }
  /// Each of them as a change of its own, which shares the bytes.
  [[nodiscard]] std::vector<HeldWrites::Write> writes(ObjectId variable) const;

 private:
  hdf5::IsolatedSource::ManyChunks chunks_;
  std::shared_ptr<const Buffer> bytes_ = std::make_shared<const Buffer>();
};

}  // namespace codecfs::worker
