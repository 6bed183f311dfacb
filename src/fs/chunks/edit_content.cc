#include "fs/chunks/edit_content.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/chunks/page_copies.h"
#include "model/fill.h"
#include "model/limits.h"

namespace codecfs::fs {
namespace {

void put_fill(const Variable& variable, MutableBytes chunk, uint64_t from) {
  if (!variable.chunk_bytes || from >= chunk.size()) return;
  // Fill from the first whole element on; the element that `from` divides is completed from a copy.
  const uint64_t element = std::max<uint64_t>(variable.fill.size(), 1);
  const uint64_t whole = std::min<uint64_t>((from + element - 1) / element * element, chunk.size());
  for (uint64_t at = from; at < whole; ++at) chunk[at] = variable.fill[at % element];
  repeat_element(variable.fill, chunk.subspan(whole));
}

}  // namespace

uint64_t EditContent::capacity_of(const Variable& variable) { return variable.chunk_bytes.value_or(max_chunk_bytes()); }

Result<Buffer> EditContent::pad(const Variable& variable, Bytes bytes) {
  CODECFS_ASSIGN(Buffer chunk, Buffer::allocate(variable.chunk_bytes.value_or(bytes.size())));
  if (!bytes.empty()) std::memcpy(chunk.data(), bytes.data(), bytes.size());
  put_fill(variable, chunk.mutable_bytes(), bytes.size());
  return chunk;
}

std::optional<EditContent::State> EditContent::state() const {
  if (bytes_ == nullptr) return std::nullopt;
  return State{bytes_, size_, encoded_};
}

EditContent::Size EditContent::size() const {
  Size size;
  for (const Buffer* const buffer : {static_cast<const Buffer*>(bytes_.get()), encoded_.get()}) {
    if (buffer == nullptr) continue;
    size.bytes += buffer->size();
    size.memory += buffer->capacity();
  }
  return size;
}

/// Begins a change: ensures that no reader holds the bytes, and that there are at least `bytes` of them. Their values
/// are arbitrary if the chunk had no content and `whole`, because the caller overwrites them all.
Result<> EditContent::begin(const Variable& variable, bool whole, uint64_t bytes) {
  if (bytes_ == nullptr) {
    std::shared_ptr<Buffer> first = std::move(base_);
    if (whole && variable.chunk_bytes) {
      CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(*variable.chunk_bytes));
      first = std::make_shared<Buffer>(std::move(fresh));
    }
    if (first == nullptr) return fail(EIO, "internal error: a part of a chunk was changed before it was read");
    bytes_ = std::move(first);
    size_ = bytes_->size();
  }
  CODECFS_TRY(make_private(bytes));
  encoded_.reset();
  return {};
}

Result<> EditContent::make_private(uint64_t bytes) {
  // use_count() alone gives no memory ordering. Releasing a reference does: it happens after the accesses of threads
  // that released theirs before.
  std::shared_ptr<Buffer> probe = bytes_;
  const bool alone = probe.use_count() == 2;
  probe.reset();
  if (alone && bytes_->size() >= bytes) return {};
  CODECFS_ASSIGN(Buffer copy, Buffer::allocate(std::max<uint64_t>(bytes, bytes_->size())));
  std::memcpy(copy.data(), bytes_->data(), bytes_->size());
  if (copy.size() > bytes_->size()) std::memset(copy.data() + bytes_->size(), 0, copy.size() - bytes_->size());
  bytes_ = std::make_shared<Buffer>(std::move(copy));
  return {};
}

/// A gap between the end of a short file and a write after it is zeros, as in any file: programs omit the zeros of
/// sparse files, and the kernel's pages have zeros there.
void EditContent::put_zeros(uint64_t end) {
  if (end > size_ && !gaps_are_fill_) std::memset(bytes_->data() + size_, 0, end - size_);
}

bool EditContent::is_whole(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask) {
  return mask.empty() && offset == 0 && bytes.size() == variable.chunk_bytes;
}

Result<> EditContent::write(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask) {
  const uint64_t end = offset + bytes.size();
  CODECFS_TRY(begin(variable, is_whole(variable, offset, bytes, mask), variable.chunk_bytes ? 0 : end));
  put_zeros(offset);
  if (mask.empty())
    std::memcpy(bytes_->data() + offset, bytes.data(), bytes.size());
  else
    copy_masked(bytes_->data() + offset, bytes.data(), mask.data(), bytes.size());
  size_ = std::max(size_, end);
  return {};
}

Result<> EditContent::change(const Variable& variable, bool whole, const std::function<void(MutableBytes)>& change) {
  CODECFS_TRY(begin(variable, whole, 0));
  change(bytes_->mutable_bytes());
  size_ = bytes_->size();
  return {};
}

Result<> EditContent::resize(const Variable& variable, uint64_t size, bool gaps_are_fill) {
  CODECFS_TRY(begin(variable, size == 0, variable.chunk_bytes ? 0 : size));
  gaps_are_fill_ = false;
  put_zeros(size);
  gaps_are_fill_ = gaps_are_fill && variable.chunk_bytes;
  if (variable.chunk_bytes)
    put_fill(variable, bytes_->mutable_bytes(), size);
  else
    bytes_->truncate(size);
  size_ = size;
  return {};
}

Result<bool> EditContent::create(const Variable& variable, bool is_absent, bool gaps_are_fill) {
  if (bytes_ != nullptr) return false;
  CODECFS_TRY(is_absent ? resize(variable, 0, gaps_are_fill) : begin(variable, false, 0));
  return is_absent;
}

void EditContent::replace(Buffer bytes, std::shared_ptr<const Buffer> encoded) {
  base_.reset();
  bytes_ = std::make_shared<Buffer>(std::move(bytes));
  encoded_ = std::move(encoded);
  size_ = bytes_->size();
}

void EditContent::show_whole() {
  if (bytes_ != nullptr) size_ = bytes_->size();
}

}  // namespace codecfs::fs
