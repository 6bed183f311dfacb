#pragma once
// A block of bytes, page aligned, that comes from a pool and goes back to it.
//
// Freshly mapped memory costs more than the decoding of fast codecs (every page faults once), so buffers of
// 64 KiB and more are kept for reuse: at most `kPoolBytes` (32 MiB) of idle memory in the whole process.
// A Buffer is moved, never copied, and may be narrowed from both ends without touching its bytes. The pool is safe
// for use from all threads; one Buffer is not.

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace codecfs {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;              // bytes
  static constexpr size_t kPoolBytes = size_t{32} << 20;  // idle bytes kept at most

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
  /// Bytes of memory that this buffer holds on to.
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] Bytes bytes() const { return {data(), size_}; }
  [[nodiscard]] MutableBytes mutable_bytes() { return {data(), size_}; }

  /// Keeps the first `size` bytes (size <= size()).
  void truncate(size_t size) { size_ = size; }
  /// Forgets the first `count` bytes (count <= size()).
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
