#pragma once
// A block of bytes from a process-wide pool, aligned to pages if it has a page or more.
//
// Page faults on freshly mapped memory cost more than decoding with a fast codec, so freed buffers of 64 KiB and more
// are kept for reuse: at most `kPoolBytes` (64 MiB) of idle memory in the process. A Buffer can be moved but not
// copied, and can be narrowed at both ends without copying. The pool is thread-safe; a single Buffer is not.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace codecfs {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline bool is_all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;              // bytes
  static constexpr size_t kPoolBytes = size_t{64} << 20;  // bytes; limit of idle memory

  Buffer() = default;
  /// `size` bytes, contents undefined. ENOMEM.
  static Result<Buffer> allocate(size_t size);
  /// A copy of `bytes`. ENOMEM.
  static Result<Buffer> copy_of(Bytes bytes);

  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        offset_(std::exchange(other.offset_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { give_back(); }

  [[nodiscard]] std::byte* data() { return block_ + offset_; }
  [[nodiscard]] const std::byte* data() const { return block_ + offset_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// Bytes of memory that this buffer occupies.
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] Bytes bytes() const { return {data(), size_}; }
  [[nodiscard]] MutableBytes mutable_bytes() { return {data(), size_}; }

  /// Keeps the first `size` bytes (size <= size()).
  void truncate(size_t size) { size_ = size; }
  /// Drops the first `count` bytes (count <= size()).
  void drop_front(size_t count) {
    offset_ += count;
    size_ -= count;
  }

 private:
  void give_back();

  std::byte* block_ = nullptr;
  size_t capacity_ = 0;
  size_t offset_ = 0;
  size_t size_ = 0;
};

}  // namespace codecfs
