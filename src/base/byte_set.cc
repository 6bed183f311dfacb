#include "base/byte_set.h"

#include <algorithm>
#include <cstring>

namespace codecfs {
namespace {

constexpr uint64_t kFull = ~uint64_t{0};

/// The bits from `first` on, `count` of them; `first` + `count` is at most 64.
uint64_t bits(uint64_t first, uint64_t count) { return count == 64 ? kFull : ((uint64_t{1} << count) - 1) << first; }

}  // namespace

void ByteSet::add(uint64_t offset, uint64_t size, Bytes mask) {
  if (has_all_ || size == 0) return;
  const uint64_t end = offset + size;
  if (words_.size() < (end + kWord - 1) / kWord) words_.resize((end + kWord - 1) / kWord);
  if (!mask.empty()) {
    for (uint64_t i = 0; i < size; ++i)
      if (mask[i] != std::byte{0}) words_[(offset + i) / kWord] |= uint64_t{1} << ((offset + i) % kWord);
    return;
  }
  for (uint64_t at = offset; at < end;) {
    const uint64_t count = std::min(end - at, kWord - at % kWord);
    words_[at / kWord] |= bits(at % kWord, count);
    at += count;
  }
}

void ByteSet::make_room(uint64_t end) {
  if (!has_all_) words_.reserve((end + kWord - 1) / kWord);
}

void ByteSet::add(const ByteSet& other) {
  if (has_all_) return;
  if (other.has_all_) return add_all();
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
}

bool ByteSet::has(uint64_t offset) const {
  if (has_all_) return true;
  return offset / kWord < words_.size() && (words_[offset / kWord] >> (offset % kWord) & 1) != 0;
}

bool ByteSet::has_first(uint64_t size) const {
  if (has_all_) return true;
  const uint64_t whole = size / kWord;
  if (words_.size() < (size + kWord - 1) / kWord) return false;
  for (uint64_t i = 0; i < whole; ++i)
    if (words_[i] != kFull) return false;
  return size % kWord == 0 || (words_[whole] & bits(0, size % kWord)) == bits(0, size % kWord);
}

void ByteSet::copy(Bytes from, MutableBytes to) const {
  if (has_all_) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (uint64_t word = 0; word < words_.size() && word * kWord < from.size(); ++word) {
    const uint64_t start = word * kWord;
    const uint64_t end = std::min<uint64_t>(start + kWord, from.size());
    if (words_[word] == kFull) {
      std::memcpy(to.data() + start, from.data() + start, end - start);
    } else if (words_[word] != 0) {
      for (uint64_t at = start; at < end; ++at)
        if ((words_[word] >> (at - start) & 1) != 0) to[at] = from[at];
    }
  }
}

}  // namespace codecfs
