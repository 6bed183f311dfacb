#include "backends/worker/chunk_batch.h"

#include <algorithm>
#include <utility>

namespace codecfs::worker {

Result<ChunkBatch> ChunkBatch::make(const hdf5::ChunkLayout* encoder, std::span<const NumberedChunk> chunks) {
  ChunkBatch batch;
  std::vector<Buffer> encoded;
  std::vector<Bytes> parts;
  size_t total = 0;
  for (const NumberedChunk& chunk : chunks) {
    Bytes part = chunk.bytes;
    uint32_t filter_mask = 0;
    if (encoder != nullptr) {
      auto made = encoder->encode(chunk.bytes);
      if (!made) break;
      filter_mask = made->filter_mask;
      part = encoded.emplace_back(std::move(made->bytes)).bytes();
    }
    if (part.size() > HeldWrites::kSmall) break;
    if (encoder != nullptr) batch.chunks_.filter_masks.push_back(filter_mask);
    batch.chunks_.numbers.push_back(chunk.number);
    batch.chunks_.sizes.push_back(part.size());
    parts.push_back(part);
    total += part.size();
  }
  if (encoder != nullptr) batch.chunks_.chain = encoder->facts().filters;
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(total));
  std::byte* at = bytes.data();
  for (const Bytes part : parts) at = std::ranges::copy(part, at).out;
  batch.bytes_ = std::make_shared<const Buffer>(std::move(bytes));
  return batch;
}

std::vector<HeldWrites::Write> ChunkBatch::writes(ObjectId variable) const {
  const bool are_encoded = !chunks_.filter_masks.empty();
  std::vector<HeldWrites::Write> writes;
  size_t at = 0;
  for (size_t i = 0; i < size(); at += chunks_.sizes[i], ++i)
    writes.push_back(
        {.call = are_encoded ? call_of<&hdf5::IsolatedSource::write_encoded> : call_of<&Source::write_chunk>,
         .variable = variable,
         .chunk = chunks_.numbers[i],
         .bytes = bytes().subspan(at, chunks_.sizes[i]),
         .owner = bytes_,
         .chain = chunks_.chain,
         .filter_mask = are_encoded ? chunks_.filter_masks[i] : 0});
  return writes;
}

}  // namespace codecfs::worker
