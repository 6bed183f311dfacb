#include "model/ended_strings.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace codecfs {
namespace {

/// The bytes behind the first zero.
template <class Span>
Span behind_end(Span string) {
  const void* const end = std::memchr(string.data(), 0, string.size());
  if (end == nullptr) return string.last(0);
  return string.subspan(static_cast<size_t>(static_cast<const std::byte*>(end) - string.data()) + 1);
}

using Block = uint8_t __attribute__((vector_size(16)));  // GCC compares longer ones byte by byte

/// How often another byte follows a zero: most chunks have nothing to clear, so this must be fast.
size_t count_starts(Bytes bytes) {
  constexpr size_t kMaxRounds = 255;  // counts are bytes
  size_t count = 0;
  size_t i = 1;
  while (i + sizeof(Block) <= bytes.size()) {
    Block found{};
    for (size_t round = 0; round < kMaxRounds && i + sizeof(Block) <= bytes.size(); ++round, i += sizeof(Block)) {
      Block before;
      Block at;
      std::memcpy(&before, bytes.data() + i - 1, sizeof before);
      std::memcpy(&at, bytes.data() + i, sizeof at);
      found -= (before == 0) & (at != 0);  // a comparison gives -1
    }
    for (size_t j = 0; j < sizeof(Block); ++j) count += found[j];
  }
  for (; i < bytes.size(); ++i) count += bytes[i - 1] == std::byte{0} && bytes[i] != std::byte{0} ? 1 : 0;
  return count;
}

/// Whether a zero has another byte behind it, in words of eight bytes that overlap by one.
bool has_bytes_behind_end(const std::byte* string, uint64_t size) {
  constexpr uint64_t kSeven = 0x7f7f7f7f7f7f7f7f;
  const auto is_in = [](uint64_t word) {
    const uint64_t others = (((word & kSeven) + kSeven) | word) & ~kSeven;  // the highest bit of each byte but zeros
    return ((~others & ~kSeven) << 8 & others) != 0;
  };
  uint64_t at = 0;
  for (; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t) - 1)
    if (is_in(load_le<uint64_t>(string + at))) return true;
  for (++at; at < size; ++at)
    if (string[at - 1] == std::byte{0} && string[at] != std::byte{0}) return true;
  return false;
}

}  // namespace

bool has_bytes_behind_ends(std::span<const EndedString> strings, uint64_t element, Bytes elements) {
  if (strings.empty()) return false;
  if (strings.size() == 1 && strings[0].size == element) {
    size_t between = 0;  // at the begin of an element, any byte may follow a zero
    for (size_t i = element; i < elements.size(); i += element)
      between += elements[i - 1] == std::byte{0} && elements[i] != std::byte{0} ? 1 : 0;
    return count_starts(elements) != between;
  }
  for (size_t i = 0; i + element <= elements.size(); i += element)
    for (const EndedString& string : strings)
      if (has_bytes_behind_end(elements.data() + i + string.offset, string.size)) return true;
  return false;
}

void clear_behind_ends(std::span<const EndedString> strings, uint64_t element, MutableBytes elements) {
  if (!has_bytes_behind_ends(strings, element, elements)) return;
  for (size_t i = 0; i + element <= elements.size(); i += element)
    for (const EndedString& string : strings)
      std::ranges::fill(behind_end(elements.subspan(i + string.offset, string.size)), std::byte{0});
}

}  // namespace codecfs
