#include "fs/views/array_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace codecfs::fs {
namespace {

constexpr size_t kBlocks = 2;

}  // namespace

Result<ArrayFile::Part> ArrayBlocks::read(Ino ino, const ArrayFile& file, uint64_t offset, uint64_t size,
                                          const ArrayFile::ReadChunk& read_chunk) {
  size = std::min(size, file.size() - std::min(offset, file.size()));
  const uint64_t first = offset / block_size_;
  if (size == 0 || (offset + size - 1) / block_size_ == first) {
    CODECFS_ASSIGN(ArrayFile::Part block, block_of(ino, file, first, read_chunk));
    block.bytes = block.bytes.subspan(offset % block_size_, size);
    return block;
  }
  CODECFS_ASSIGN(Buffer joined, Buffer::allocate(size));
  for (uint64_t at = offset; at < offset + size;) {
    CODECFS_ASSIGN(const ArrayFile::Part block, block_of(ino, file, at / block_size_, read_chunk));
    const uint64_t from = at % block_size_;
    const uint64_t count = std::min(block.bytes.size() - from, offset + size - at);
    std::memcpy(joined.data() + (at - offset), block.bytes.data() + from, count);
    at += count;
  }
  const auto owner = std::make_shared<const Buffer>(std::move(joined));
  return ArrayFile::Part{owner->bytes(), owner};
}

Result<ArrayFile::Part> ArrayBlocks::block_of(Ino ino, const ArrayFile& file, uint64_t index,
                                              const ArrayFile::ReadChunk& read_chunk) {
  const uint64_t state = mount_.changes();
  std::shared_ptr<Block> block;
  {
    const LockGuard lock(mutex_);
    const auto found =
        std::ranges::find_if(blocks_, [&](const auto& kept) { return kept->ino == ino && kept->index == index; });
    if (found != blocks_.end() && (*found)->state == state) {
      blocks_.splice(blocks_.begin(), blocks_, found);
    } else {
      if (found != blocks_.end()) blocks_.erase(found);
      if (blocks_.size() >= kBlocks) blocks_.pop_back();
      blocks_.push_front(std::make_shared<Block>());
      blocks_.front()->ino = ino;
      blocks_.front()->index = index;
      blocks_.front()->state = state;
    }
    block = blocks_.front();
  }
  const LockGuard assembling(block->mutex);
  if (block->part.bytes.empty()) {
    CODECFS_ASSIGN(block->part, file.read(index * block_size_, block_size_, read_chunk));
  }
  return block->part;
}

}  // namespace codecfs::fs
