#include "backends/adapted/leading_part.h"

#include <cstring>
#include <vector>

#include "base/endian.h"

namespace codecfs::adapted {
namespace {

uint64_t product(std::span<const uint64_t> lengths) {
  uint64_t result = 1;
  for (const uint64_t length : lengths) result *= length;
  return result;
}

/// Calls `with` (first, count) for each row of the part, as elements of the chunk in C order.
template <class With>
void each_row(std::span<const uint64_t> chunks, std::span<const uint64_t> wanted, With with) {
  if (product(wanted) == 0) return;
  if (chunks.empty()) return with(uint64_t{0}, uint64_t{1});
  std::vector<uint64_t> at(chunks.size());
  for (;;) {
    uint64_t first = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) first = first * chunks[axis] + at[axis];
    with(first, wanted.back());
    size_t axis = at.size() - 1;
    do {
      if (axis == 0) return;
      --axis;
      at[axis] = at[axis] + 1 < wanted[axis] ? at[axis] + 1 : 0;
    } while (at[axis] == 0);
  }
}

}  // namespace

Result<Buffer> leading_part(Bytes chunk, std::span<const uint64_t> chunks, std::span<const uint64_t> wanted,
                            uint64_t size) {
  if (size == 0 || chunk.size() % size != 0 || chunk.size() / size != product(chunks))
    return fail(EIO, "the chunk has {} bytes instead of {} elements of {}", chunk.size(), product(chunks), size);
  CODECFS_ASSIGN(Buffer part, Buffer::allocate(product(wanted) * size));
  std::byte* to = part.data();
  each_row(chunks, wanted, [&](uint64_t first, uint64_t count) {
    std::memcpy(to, chunk.data() + first * size, count * size);
    to += count * size;
  });
  return part;
}

Result<Buffer> leading_items(Bytes chunk, std::span<const uint64_t> chunks, std::span<const uint64_t> wanted) {
  const uint64_t count = product(chunks);
  const auto damaged = [&] { return fail(EIO, "this is no chunk of {} items of variable length", count); };
  if (chunk.size() < 4 || load_le<uint32_t>(chunk.data()) != count) return damaged();
  std::vector<Bytes> items;  // each with its length; there are at least 4 bytes in the chunk for each
  if (count > chunk.size() / 4) return damaged();
  items.reserve(count);
  size_t at = 4;
  for (uint64_t i = 0; i < count; ++i) {
    if (chunk.size() - at < 4) return damaged();
    const uint64_t size = uint64_t{4} + load_le<uint32_t>(chunk.data() + at);
    if (chunk.size() - at < size) return damaged();
    items.push_back(chunk.subspan(at, size));
    at += size;
  }
  CODECFS_ASSIGN(Buffer part, Buffer::allocate(chunk.size()));
  store_le(part.data(), static_cast<uint32_t>(product(wanted)));
  size_t end = 4;
  each_row(chunks, wanted, [&](uint64_t first, uint64_t row) {
    for (const Bytes item : std::span(items).subspan(first, row)) {
      std::memcpy(part.data() + end, item.data(), item.size());
      end += item.size();
    }
  });
  part.truncate(end);
  return part;
}

}  // namespace codecfs::adapted
