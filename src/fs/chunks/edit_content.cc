#include "fs/chunks/edit_content.h"

#include <algorithm>
#include <cstring>
#include <new>
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

std::optional<EditContent::State> EditContent::storable() const {
  if (!is_replacing()) return state();
  if (before_->bytes == nullptr) return std::nullopt;
  return State{before_->bytes, before_->size, before_->encoded};
}

EditContent::Size EditContent::size() const {
  Size size;
  for (const Buffer* const buffer : {static_cast<const Buffer*>(bytes_.get()), encoded_.get()}) {
    if (buffer == nullptr) continue;
    size.bytes += buffer->size();
    size.memory += buffer->capacity();
  }
  if (is_replacing() && before_->bytes != nullptr) size.memory += before_->bytes->capacity();
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
  if (whole) is_own_ = true;
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
Result<> EditContent::put_zeros(uint64_t end) {
  if (end <= size_ || gaps_are_fill_) return {};
  CODECFS_TRY(note_written([&] { written_.add(size_, end - size_); }));
  std::memset(bytes_->data() + size_, 0, end - size_);
  return {};
}

bool EditContent::is_whole(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask) {
  return mask.empty() && offset == 0 && bytes.size() == variable.chunk_bytes;
}

Result<> EditContent::write(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask) {
  const uint64_t end = offset + bytes.size();
  CODECFS_TRY(note_written([&] { written_.add(offset, bytes.size(), mask); }));
  CODECFS_TRY(begin(variable, is_whole(variable, offset, bytes, mask), variable.chunk_bytes ? 0 : end));
  CODECFS_TRY(put_zeros(offset));
  if (mask.empty())
    std::memcpy(bytes_->data() + offset, bytes.data(), bytes.size());
  else
    copy_masked(bytes_->data() + offset, bytes.data(), mask.data(), bytes.size());
  note_size(std::max(size_, end));
  return {};
}

Result<> EditContent::change(const Variable& variable, bool whole, const std::function<void(MutableBytes)>& change) {
  CODECFS_TRY(begin(variable, whole, 0));
  if (notes_written_ && !whole) {
    CODECFS_TRY(note_bytes_of(change));
  } else {
    change(bytes_->mutable_bytes());
    CODECFS_TRY(note_written([&] { written_.add_all(); }));
  }
  note_size(bytes_->size());
  return {};
}

/// Changes the bytes, and a copy in which all bits are inverted: only written bytes are the same in both then.
Result<> EditContent::note_bytes_of(const std::function<void(MutableBytes)>& change) {
  CODECFS_ASSIGN(Buffer inverse, Buffer::allocate(bytes_->size()));
  std::ranges::transform(bytes_->bytes(), inverse.data(), [](std::byte byte) { return ~byte; });
  change(inverse.mutable_bytes());
  change(bytes_->mutable_bytes());
  std::transform(inverse.data(), inverse.data() + inverse.size(), bytes_->data(), inverse.data(),
                 [](std::byte a, std::byte b) { return a == b ? std::byte{0xff} : std::byte{0}; });
  return note_written([&] { written_.add(0, inverse.size(), inverse.bytes()); });
}

Result<> EditContent::note_written(const std::function<void()>& note) try {
  if (notes_written_) note();
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to note which bytes of a chunk were written");
}

Result<> EditContent::resize(const Variable& variable, uint64_t size, bool gaps_are_fill) {
  CODECFS_TRY(begin(variable, size == 0, variable.chunk_bytes ? 0 : size));
  CODECFS_TRY(note_written([&] {
    if (size == 0 || !variable.chunk_bytes) return written_.add_all();
    const uint64_t from = std::min(size, size_);
    written_.add(from, bytes_->size() - from);
  }));
  gaps_are_fill_ = false;
  CODECFS_TRY(put_zeros(size));
  gaps_are_fill_ = gaps_are_fill && variable.chunk_bytes;
  if (variable.chunk_bytes)
    put_fill(variable, bytes_->mutable_bytes(), size);
  else
    bytes_->truncate(size);
  note_size(size);
  return {};
}

void EditContent::note_size(uint64_t size) {
  size_ = size;
  if (size_ == bytes_->size()) before_.reset();
}

Result<bool> EditContent::create(const Variable& variable, bool is_absent, bool gaps_are_fill) {
  if (bytes_ != nullptr) return false;
  if (!is_absent) {
    CODECFS_TRY(begin(variable, false, 0));
    return false;
  }
  // Nothing is written yet, so what another program stores meanwhile stays.
  const bool notes = std::exchange(notes_written_, false);
  const Result<> made = resize(variable, 0, gaps_are_fill);  // which makes it its own
  notes_written_ = notes;
  CODECFS_TRY(made);
  return true;
}

void EditContent::replace(Buffer bytes, std::shared_ptr<const Buffer> encoded) {
  base_.reset();
  written_.add_all();
  is_own_ = true;
  bytes_ = std::make_shared<Buffer>(std::move(bytes));
  encoded_ = std::move(encoded);
  note_size(bytes_->size());
}

Result<> EditContent::begin_replacement(const Variable& variable) {
  if (is_replacing()) return resize(variable, 0, false);
  // Moved, not copied: what comes next is new.
  before_ = Before{
      std::exchange(bytes_, nullptr), std::move(encoded_), size_, is_own_, std::exchange(written_, {}), version_};
  const Result<> begun = resize(variable, 0, false);
  if (!begun) (void)abandon_replacement();
  return begun;
}

bool EditContent::abandon_replacement() {
  bytes_ = std::move(before_->bytes);
  encoded_ = std::move(before_->encoded);
  size_ = before_->size;
  is_own_ = before_->is_own;
  written_ = std::move(before_->written);
  version_ = std::move(before_->version);
  before_.reset();
  gaps_are_fill_ = false;
  return bytes_ != nullptr;
}

void EditContent::show_whole() {
  if (bytes_ != nullptr) note_size(bytes_->size());
}

}  // namespace codecfs::fs
