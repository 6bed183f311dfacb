#pragma once
// Room for decoded bytes: exactly as much as is expected where that is known, else growing up to the bound, so that
// what a hostile stream claims is never allocated. And for encoded ones, which have a bound that the encoder knows.

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/filter.h"

namespace codecfs::filters {

/// For decoders that give their output in pieces.
class OutputBuffer {
 public:
  /// `input_size`: bytes that are decoded, for a first guess. ENOMEM.
  static Result<OutputBuffer> make(const SizeBound& bound, size_t input_size);

  /// Where the next bytes go; never empty. At the bound it is a small place beside the buffer, so that a decoder can
  /// see the end of its stream. ENOMEM.
  Result<MutableBytes> room();
  /// Of the latest room, `count` bytes were written. EIO past the bound.
  Result<> wrote(size_t count);
  [[nodiscard]] size_t size() const { return size_; }
  /// The bytes written.
  Result<Buffer> take();

 private:
  SizeBound bound_;
  Buffer buffer_;
  size_t size_ = 0;
  bool at_bound_ = false;
  std::byte spare_[64];
};

/// The error of a stream that decodes to more than the bound.
[[nodiscard]] std::unexpected<Error> too_large(const SizeBound& bound);

/// Checks the decoded size that a stream's header tells, before memory is taken for it: EIO where it is not within the
/// bound, or where `input_size` bytes cannot be that much data.
Result<> check_told_size(uint64_t told, size_t input_size, const SizeBound& bound);

/// For decoders that need room for all output at once: `decode(MutableBytes) -> Result<std::optional<size_t>>` gives
/// the bytes written, none where the room did not do; it is then called again with more.
template <class Decode>
Result<Buffer> decode_whole(const SizeBound& bound, size_t input_size, Decode&& decode);

/// Without memory that is more than half unused. ENOMEM.
Result<Buffer> shrink(Buffer buffer, size_t size);

/// For encoders: `encode(MutableBytes) -> Result<size_t>` gives the bytes written to room for `most` bytes.
template <class Encode>
Result<Buffer> encode_whole(size_t most, Encode&& encode) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(most));
  CODECFS_ASSIGN(const size_t written, encode(buffer.mutable_bytes()));
  return shrink(std::move(buffer), written);
}

/// Size of the first attempt, and of the one after `size`; <= bound.max.
size_t first_room(const SizeBound& bound, size_t input_size);
size_t next_room(const SizeBound& bound, size_t size);

template <class Decode>
Result<Buffer> decode_whole(const SizeBound& bound, size_t input_size, Decode&& decode) {
  for (size_t size = first_room(bound, input_size);; size = next_room(bound, size)) {
    CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
    Result<std::optional<size_t>> written = decode(buffer.mutable_bytes());
    if (!written) return pass_on(written);
    if (*written) return shrink(std::move(buffer), **written);
    if (size >= bound.max) return too_large(bound);
  }
}

}  // namespace codecfs::filters
