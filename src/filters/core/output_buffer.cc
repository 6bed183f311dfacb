// Growing output buffers for decoders whose output size is unknown.

#include "filters/core/output_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace codecfs::filters {
namespace {

constexpr size_t kFirstRoom = size_t{64} << 10;

// an upper bound: no format that declares its size exceeds it for data of 1 MiB and more
constexpr uint64_t kMaxRatio = 32768;

}  // namespace

size_t first_room(const SizeBound& bound, size_t input_size) {
  if (bound.exact || bound.is_usual) return bound.max;
  return std::min<uint64_t>(bound.max, std::max(kFirstRoom, input_size * 4));
}

size_t next_room(const SizeBound& bound, size_t size) {
  return std::min<uint64_t>(bound.max, std::max(kFirstRoom, size * 2));
}

Result<Buffer> shrink(Buffer buffer, size_t size) {
  buffer.truncate(size);
  if (buffer.capacity() > kFirstRoom && size < buffer.capacity() / 2) return Buffer::copy_of(buffer.bytes());
  return buffer;
}

std::unexpected<Error> too_large(const SizeBound& bound) {
  return fail(EIO, "decodes to more than {} bytes, the most that this chunk can have here", bound.max);
}

Result<> check_told_size(uint64_t told, size_t input_size, const SizeBound& bound) {
  if (told > bound.max) return too_large(bound);
  if (bound.exact && told != *bound.exact) return fail(EIO, "its header declares {} bytes, not {}", told, *bound.exact);
  if (told > size_t{1} << 20 && told / kMaxRatio > input_size)
    return fail(EIO, "its header declares {} bytes, but {} bytes cannot be that much data", told, input_size);
  return {};
}

Result<OutputBuffer> OutputBuffer::make(const SizeBound& bound, size_t input_size) {
  OutputBuffer output;
  output.bound_ = bound;
  CODECFS_ASSIGN(output.buffer_, Buffer::allocate(first_room(bound, input_size)));
  return output;
}

Result<MutableBytes> OutputBuffer::room() {
  if (size_ == buffer_.size() && size_ < bound_.max) {
    CODECFS_ASSIGN(Buffer larger, Buffer::allocate(next_room(bound_, size_)));
    std::memcpy(larger.data(), buffer_.data(), size_);
    buffer_ = std::move(larger);
  }
  at_bound_ = size_ == buffer_.size();
  return at_bound_ ? MutableBytes(spare_) : buffer_.mutable_bytes().subspan(size_);
}

Result<> OutputBuffer::wrote(size_t count) {
  if (at_bound_ && count > 0) return too_large(bound_);
  size_ += count;
  return {};
}

Result<Buffer> OutputBuffer::take() { return shrink(std::move(buffer_), size_); }

}  // namespace codecfs::filters
