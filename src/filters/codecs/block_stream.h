#pragma once
// The framing that the HDF5 filters lz4 and bitshuffle share: all integers big-endian.
//
//   BE64 bytes of the data | BE32 bytes of a block | per block: BE32 stored bytes, the stored bytes

#include "base/buffer.h"
#include "base/endian.h"
#include "base/result.h"
#include "filters/filter.h"
#include "filters/output_buffer.h"

namespace codecfs::filters::codecs {

class BlockStream {
 public:
  /// Reads the header. EIO also where the size it tells is past the bound.
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

  /// The stored bytes of the next block. EIO.
  Result<Bytes> next_block() {
    CODECFS_ASSIGN(const Bytes length, take(4));
    return take(load_be<uint32_t>(length.data()));
  }
  /// The next `count` bytes. EIO.
  Result<Bytes> take(size_t count) {
    if (count > rest_.size()) return fail(EIO, "the compressed data is cut short or damaged");
    const Bytes taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

 private:
  size_t size_ = 0;
  size_t block_size_ = 0;
  Bytes rest_;
};

}  // namespace codecfs::filters::codecs
