#pragma once
// Chunks of items of variable length, for tests.

#include <string>
#include <vector>

namespace codecfs {

/// LE32 count, then LE32 length and bytes of each item (vlen-utf8); lengths below 256.
inline std::string vlen_chunk(const std::vector<std::string>& items) {
  const auto number = [](size_t value) { return std::string{static_cast<char>(value), 0, 0, 0}; };
  std::string chunk = number(items.size());
  for (const std::string& item : items) chunk += number(item.size()) + item;
  return chunk;
}

}  // namespace codecfs
