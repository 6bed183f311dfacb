// The buffer pool: idle blocks by size class, four classes to a power of two, under one mutex. Blocks are large, so
// the lock is taken rarely (twice a chunk) and never while memory is touched or mapped.

#include "base/buffer.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "base/mutex.h"

namespace codecfs {
namespace {

constexpr size_t kPooledFrom = size_t{64} << 10;  // bytes; malloc serves smaller blocks well
constexpr size_t kLine = 64;                      // bytes: of a cache line, to which blocks below a page are aligned

/// Rounds up to 1, 1.25, 1.5 or 1.75 times a power of two, so that at most a quarter of a block is unused. Below a
/// page, there are often many that are kept for long, such as small chunks that wait to be stored.
size_t size_class(size_t size) {
  if (size <= Buffer::kAlignment - kLine) return std::max(size + kLine - 1, kLine) / kLine * kLine;
  const size_t step = std::max(std::bit_floor(size) / 4, Buffer::kAlignment);
  return (size + step - 1) / step * step;
}

class Pool {
 public:
  std::byte* take(size_t capacity) {
    const LockGuard lock(mutex_);
    const auto found = idle_.find(capacity);
    if (found == idle_.end() || found->second.empty()) return nullptr;
    std::byte* block = found->second.back();
    found->second.pop_back();
    idle_bytes_ -= capacity;
    return block;
  }
  /// False if the pool is full, or has no memory for the entry; the caller must then free the block.
  bool put(std::byte* block, size_t capacity) noexcept {
    const LockGuard lock(mutex_);
    if (idle_bytes_ + capacity > Buffer::kPoolBytes) return false;
    try {
      idle_[capacity].push_back(block);
    } catch (const std::bad_alloc&) {
      return false;
    }
    idle_bytes_ += capacity;
    return true;
  }

 private:
  Mutex mutex_{LockRank::innermost};
  std::map<size_t, std::vector<std::byte*>> idle_ CODECFS_GUARDED_BY(mutex_);
  size_t idle_bytes_ CODECFS_GUARDED_BY(mutex_) = 0;
};

Pool& pool() {
  static Pool& instance = *new Pool;  // never destroyed: buffers may outlive static objects
  return instance;
}

}  // namespace

Result<Buffer> Buffer::allocate(size_t size) {
  if (size > SIZE_MAX / 2) return fail(ENOMEM, "cannot allocate a buffer of {} bytes", size);
  Buffer buffer;
  buffer.capacity_ = size_class(size);
  if (buffer.capacity_ >= kPooledFrom) buffer.block_ = pool().take(buffer.capacity_);
  if (buffer.block_ == nullptr)
    buffer.block_ = static_cast<std::byte*>(
        std::aligned_alloc(buffer.capacity_ < kAlignment ? kLine : kAlignment, buffer.capacity_));
  if (buffer.block_ == nullptr) {
    buffer.capacity_ = 0;
    return fail(ENOMEM, "no memory for a buffer of {} bytes", size);
  }
  buffer.size_ = size;
  return buffer;
}

Result<Buffer> Buffer::copy_of(Bytes bytes) {
  CODECFS_ASSIGN(Buffer buffer, allocate(bytes.size()));
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    give_back();
    block_ = std::exchange(other.block_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    offset_ = std::exchange(other.offset_, 0);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Buffer::give_back() {
  if (block_ == nullptr) return;
  if (capacity_ < kPooledFrom || !pool().put(block_, capacity_)) std::free(block_);
  block_ = nullptr;
  capacity_ = offset_ = size_ = 0;
}

}  // namespace codecfs
