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

template <class Note>
Result<> EditContent::note_written(Note note) try {
  if (notes_written_) note();
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to note which bytes of a chunk were written");
}

/// Prepares a change: bytes that no reader holds, and at least `bytes` of them. Their values are arbitrary if the chunk
/// had no content and `whole`, because the caller overwrites them all. Nothing has changed before adopt().
Result<EditContent::Prepared> EditContent::prepare(const Variable& variable, bool whole, uint64_t bytes) {
  if (bytes_ == nullptr && whole && variable.chunk_bytes) {
    CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(*variable.chunk_bytes));
    return Prepared{std::make_shared<Buffer>(std::move(fresh)), *variable.chunk_bytes, whole};
  }
  const std::shared_ptr<Buffer>& now = bytes_ != nullptr ? bytes_ : base_;
  if (now == nullptr) return fail(EIO, "internal error: a part of a chunk was changed before it was read");
  const uint64_t size = bytes_ != nullptr ? size_ : base_->size();
  // use_count() alone gives no memory ordering. Releasing a reference does: it happens after the accesses of threads
  // that released theirs before.
  std::shared_ptr<Buffer> probe = now;
  const bool alone = probe.use_count() == 2;
  probe.reset();
  if (alone && now->size() >= bytes) return Prepared{now, size, whole};
  CODECFS_ASSIGN(Buffer copy, Buffer::allocate(std::max<uint64_t>(bytes, now->size())));
  std::memcpy(copy.data(), now->data(), now->size());
  if (copy.size() > now->size()) std::memset(copy.data() + now->size(), 0, copy.size() - now->size());
  return Prepared{std::make_shared<Buffer>(std::move(copy)), size, whole};
}

void EditContent::adopt(Prepared prepared) noexcept {
  base_.reset();
  bytes_ = std::move(prepared.bytes);
  size_ = prepared.size;
  if (prepared.whole) is_own_ = true;
  encoded_.reset();
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
  CODECFS_ASSIGN(Prepared prepared,
                 prepare(variable, is_whole(variable, offset, bytes, mask), variable.chunk_bytes ? 0 : end));
  CODECFS_TRY(note_written([&] {
    written_.add(offset, bytes.size(), mask);
    // Lower bytes, so that no more memory is needed.
    if (offset > prepared.size && !gaps_are_fill_) written_.add(prepared.size, offset - prepared.size);
  }));
  adopt(std::move(prepared));
  put_zeros(offset);
  if (mask.empty())
    std::memcpy(bytes_->data() + offset, bytes.data(), bytes.size());
  else
    copy_masked(bytes_->data() + offset, bytes.data(), mask.data(), bytes.size());
  note_size(std::max(size_, end));
  return {};
}

Result<> EditContent::change(const Variable& variable, bool whole, const std::function<void(MutableBytes)>& change) {
  CODECFS_ASSIGN(Prepared prepared, prepare(variable, whole, 0));
  if (notes_written_ && !whole) {
    CODECFS_TRY(note_bytes_of(std::move(prepared), change));
  } else {
    change(prepared.bytes->mutable_bytes());
    if (notes_written_) written_.add_all();
    adopt(std::move(prepared));
  }
  note_size(bytes_->size());
  return {};
}

/// Changes the bytes, and a copy in which all bits are inverted: only written bytes are the same in both then.
Result<> EditContent::note_bytes_of(Prepared prepared, const std::function<void(MutableBytes)>& change) {
  CODECFS_ASSIGN(Buffer inverse, Buffer::allocate(prepared.bytes->size()));
  CODECFS_TRY(note_written([&] { written_.make_room(inverse.size()); }));
  std::ranges::transform(prepared.bytes->bytes(), inverse.data(), [](std::byte byte) { return ~byte; });
  change(inverse.mutable_bytes());
  change(prepared.bytes->mutable_bytes());
  adopt(std::move(prepared));
  std::transform(inverse.data(), inverse.data() + inverse.size(), bytes_->data(), inverse.data(),
                 [](std::byte a, std::byte b) { return a == b ? std::byte{0xff} : std::byte{0}; });
  written_.add(0, inverse.size(), inverse.bytes());
  return {};
}

Result<> EditContent::resize(const Variable& variable, uint64_t size, bool gaps_are_fill) {
  CODECFS_ASSIGN(Prepared prepared, prepare(variable, size == 0, variable.chunk_bytes ? 0 : size));
  return resize_prepared(variable, std::move(prepared), size, gaps_are_fill, notes_written_);
}

Result<> EditContent::resize_prepared(const Variable& variable, Prepared prepared, uint64_t size, bool gaps_are_fill,
                                      bool notes) {
  if (notes) {
    CODECFS_TRY(note_written([&] {
      if (size == 0 || !variable.chunk_bytes) return written_.add_all();
      const uint64_t from = std::min(size, prepared.size);
      written_.add(from, prepared.bytes->size() - from);
    }));
  }
  adopt(std::move(prepared));
  gaps_are_fill_ = false;
  put_zeros(size);
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
  CODECFS_ASSIGN(Prepared prepared, prepare(variable, is_absent, 0));  // which makes an absent one its own
  if (!is_absent) {
    adopt(std::move(prepared));
    return false;
  }
  // Nothing is written yet, so what another program stores meanwhile stays.
  CODECFS_TRY(resize_prepared(variable, std::move(prepared), 0, gaps_are_fill, false));
  return true;
}

void EditContent::replace(Buffer bytes, std::shared_ptr<const Buffer> encoded) {
  bytes_ = std::make_shared<Buffer>(std::move(bytes));
  base_.reset();
  written_.add_all();
  is_own_ = true;
  encoded_ = std::move(encoded);
  note_size(bytes_->size());
}

Result<> EditContent::begin_replacement(const Variable& variable) {
  if (is_replacing()) return resize(variable, 0, false);
  // Moved, not copied: what comes next is new.
  CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(*variable.chunk_bytes));
  Prepared prepared{std::make_shared<Buffer>(std::move(fresh)), *variable.chunk_bytes, true};
  std::optional<std::string> version = version_;
  // From here on no memory is needed.
  before_ =
      Before{std::move(bytes_), std::move(encoded_), size_, is_own_, std::exchange(written_, {}), std::move(version)};
  return resize_prepared(variable, std::move(prepared), 0, false, notes_written_);
}

ByteSet EditContent::take_written() {
  written_.add(given_back_);
  given_back_ = {};
  return std::exchange(written_, {});
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
