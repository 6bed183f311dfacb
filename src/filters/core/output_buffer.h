#pragma once
// Output buffers of decoders: of exactly the expected size if that is known, else growing up to the bound, so that a
// malicious stream cannot make us allocate whatever size it declares. Encoders have a bound that they compute
// themselves.

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/filter.h"

namespace codecfs::filters {

/// For decoders that produce their output in pieces.
class OutputBuffer {
 public:
  /// `input_size`: size of the encoded data, for the initial size. ENOMEM.
  static Result<OutputBuffer> make(const SizeBound& bound, size_t input_size);

  /// Returns where to write the next bytes; never empty. When the bound is reached, it is a small area outside of the
  /// buffer, so that a decoder can detect the end of its stream. ENOMEM.
  Result<MutableBytes> room();
  /// Must be called after room(): `count` bytes were written there. EIO beyond the bound.
  Result<> wrote(size_t count);
  [[nodiscard]] size_t size() const { return size_; }
  /// Returns all bytes written.
  Result<Buffer> take();

 private:
  SizeBound bound_;
  Buffer buffer_;
  size_t size_ = 0;
  bool at_bound_ = false;
  std::byte spare_[64];
};

/// The error for a stream that decodes to more than the bound.
[[nodiscard]] std::unexpected<Error> too_large(const SizeBound& bound);

/// Checks the decoded size that a stream's header declares, before memory is allocated for it: EIO if it exceeds the
/// bound, or if `input_size` bytes cannot decode to so much.
Result<> check_told_size(uint64_t told, size_t input_size, const SizeBound& bound);

/// For decoders that need one buffer for all output: `decode(MutableBytes) -> Result<std::optional<size_t>>` returns
/// the bytes written, or none if the buffer was too small; it is then called again with a larger one.
template <class Decode>
Result<Buffer> decode_whole(const SizeBound& bound, size_t input_size, Decode&& decode);

/// Reallocates if more than half of the memory is unused. ENOMEM.
Result<Buffer> shrink(Buffer buffer, size_t size);

/// For encoders: `encode(MutableBytes) -> Result<size_t>` gets a buffer of `most` bytes and returns the bytes written.
template <class Encode>
Result<Buffer> encode_whole(size_t most, Encode&& encode) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(most));
  CODECFS_ASSIGN(const size_t written, encode(buffer.mutable_bytes()));
  return shrink(std::move(buffer), written);
}

/// Size of the first attempt, and of the attempt after one of `size`; <= bound.max.
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
