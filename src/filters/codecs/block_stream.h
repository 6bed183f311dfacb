#pragma once
// The framing that the HDF5 filters lz4 and bitshuffle share: all integers big-endian.
//
//   BE64 bytes of the data | BE32 bytes of a block | per block: BE32 stored bytes, the stored bytes

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "base/endian.h"
#include "base/result.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"

namespace codecfs::filters::codecs {

class BlockStream {
 public:
  /// Reads the header. EIO also if the size in the header exceeds the bound.
  static Result<BlockStream> open(Bytes in, const SizeBound& bound) {
    if (in.size() < 12) return fail(EIO, "{} bytes have no room for the header", in.size());
    BlockStream stream;
    const auto size = load_be<uint64_t>(in.data());
    CODECFS_TRY(check_told_size(size, in.size(), bound));
    stream.size_ = size;
    stream.block_size_ = load_be<uint32_t>(in.data() + 8);
    stream.rest_ = in.subspan(12);
    return stream;
  }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t block_size() const { return block_size_; }

  /// Returns the stored bytes of the next block. EIO.
  Result<Bytes> next_block() {
    CODECFS_ASSIGN(const Bytes length, take(4));
    return take(load_be<uint32_t>(length.data()));
  }
  /// Returns the next `count` bytes. EIO.
  Result<Bytes> take(size_t count) {
    if (count > rest_.size()) return fail(EIO, "the compressed data is damaged or truncated");
    const Bytes taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

 private:
  size_t size_ = 0;
  size_t block_size_ = 0;
  Bytes rest_;
};

/// Writes the same framing to `room`, which must be large enough for all blocks.
class BlockWriter {
 public:
  BlockWriter(MutableBytes room, size_t size, size_t block_size) : room_(room) {
    store_be(room_.data(), uint64_t{size});
    store_be(room_.data() + 8, static_cast<uint32_t>(block_size));
    written_ = kHeader;
  }
  static constexpr size_t kHeader = 12;  // bytes
  static constexpr size_t kBlockHeader = 4;

  /// Returns where the caller must write the bytes of the next block, before it calls add_block() with their number.
  [[nodiscard]] MutableBytes block_room() const { return room_.subspan(written_ + kBlockHeader); }
  void add_block(size_t stored) {
    store_be(room_.data() + written_, static_cast<uint32_t>(stored));
    written_ += kBlockHeader + stored;
  }
  /// Appends bytes without a block header.
  void add_bytes(Bytes bytes) {
    if (!bytes.empty()) std::memcpy(room_.data() + written_, bytes.data(), bytes.size());
    written_ += bytes.size();
  }
  [[nodiscard]] size_t written() const { return written_; }

 private:
  MutableBytes room_;
  size_t written_ = 0;
};

/// The size of an encoded stream, of which the codec makes `most` bytes at most. Other encoders may make a little more.
inline SizeBound block_stream_size(const SizeBound& decoded, uint64_t most) {
  return {.max = std::max(compressed_size(decoded).max, most), .exact = std::nullopt};
}

}  // namespace codecfs::filters::codecs
