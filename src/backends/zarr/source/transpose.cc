#include "backends/zarr/source/transpose.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/endian.h"

namespace codecfs::zarr {
namespace {

/// An axis longer than 1, with its stride in elements.
struct Axis {
  uint64_t length;
  uint64_t from_stride;
  uint64_t to_stride;
};

/// In the order of the result. Neighbours that stay neighbours are merged.
std::vector<Axis> make_axes(std::span<const uint64_t> shape, std::span<const size_t> order) {
  std::vector<uint64_t> strides(shape.size());
  uint64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  std::vector<Axis> axes;
  for (const size_t axis : order) {
    if (shape[axis] == 1) continue;
    if (!axes.empty() && axes.back().from_stride == strides[axis] * shape[axis]) {
      axes.back().length *= shape[axis];
      axes.back().from_stride = strides[axis];
    } else {
      axes.push_back({shape[axis], strides[axis], 0});
    }
  }
  stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    axes[i].to_stride = stride;
    stride *= axes[i].length;
  }
  return axes;
}

/// Calls plane(from, to), offsets in elements, for each index of the outer axes.
template <class Plane>
void for_each_plane(std::span<const Axis> outer, Plane plane) {
  std::vector<uint64_t> at(outer.size());
  uint64_t from = 0;
  uint64_t to = 0;
  while (true) {
    plane(from, to);
    size_t i = 0;
    for (; i < outer.size(); ++i) {
      from += outer[i].from_stride;
      to += outer[i].to_stride;
      if (++at[i] < outer[i].length) break;
      from -= outer[i].from_stride * outer[i].length;
      to -= outer[i].to_stride * outer[i].length;
      at[i] = 0;
    }
    if (i == outer.size()) return;
  }
}

/// Calls move(from, to) for every element of a plane, in tiles that fit the L1 cache.
template <class Move>
void for_each_in_tiles(const Axis& first, const Axis& last, Move move) {
  static constexpr uint64_t kTile = 32;
  for (uint64_t i0 = 0; i0 < first.length; i0 += kTile)
    for (uint64_t j0 = 0; j0 < last.length; j0 += kTile) {
      const uint64_t i1 = std::min(first.length, i0 + kTile);
      const uint64_t j1 = std::min(last.length, j0 + kTile);
      for (uint64_t i = i0; i < i1; ++i)
        for (uint64_t j = j0; j < j1; ++j)
          move(i * first.from_stride + j * last.from_stride, i * first.to_stride + j * last.to_stride);
    }
}

/// Calls run(from, to, length) for all elements, in runs that are contiguous in both; of one element where the last
/// axes differ.
template <class Run>
void for_each_run(std::span<const uint64_t> shape, std::span<const size_t> order, Run run) {
  if (std::ranges::find(shape, 0U) != shape.end()) return;
  std::vector<Axis> axes = make_axes(shape, order);
  if (axes.empty()) return run(0, 0, 1);
  const Axis last = axes.back();
  axes.pop_back();
  if (last.from_stride == 1)
    return for_each_plane(std::span<const Axis>(axes), [&](uint64_t from, uint64_t to) { run(from, to, last.length); });
  const auto fastest = std::ranges::min_element(axes, {}, &Axis::from_stride);
  const Axis first = *fastest;
  axes.erase(fastest);
  for_each_plane(std::span<const Axis>(axes), [&](uint64_t from, uint64_t to) {
    for_each_in_tiles(first, last, [&](uint64_t f, uint64_t t) { run(from + f, to + t, 1); });
  });
}

/// Calls visit(i, start) for every item of a chunk of variable-length items. EIO. First checks that the chunk is large
/// enough for the number of items.
template <class Visit>
Result<> for_each_item(Bytes chunk, uint64_t elements, Visit visit) {
  if (chunk.size() < 4 || load_le<uint32_t>(chunk.data()) != elements)
    return fail(EIO, "the chunk does not hold {} items of variable length", elements);
  if (elements > chunk.size() / 4 || chunk.size() > UINT32_MAX)
    return fail(EIO, "a chunk of {} bytes cannot hold {} items", chunk.size(), elements);
  size_t at = 4;
  for (uint64_t i = 0; i < elements; ++i) {
    if (chunk.size() - at < 4) return fail(EIO, "the chunk ends before item {}", i);
    const uint64_t size = uint64_t{load_le<uint32_t>(chunk.data() + at)} + 4;
    if (chunk.size() - at < size) return fail(EIO, "item {} reaches beyond the chunk", i);
    visit(i, at);
    at += size;
  }
  if (at != chunk.size()) return fail(EIO, "{} bytes follow the last item of the chunk", chunk.size() - at);
  return {};
}

template <size_t kSize>
void transpose_sized(const std::byte* from, std::byte* to, std::span<const uint64_t> shape,
                     std::span<const size_t> order) {
  for_each_run(shape, order, [=](uint64_t f, uint64_t t, uint64_t length) {
    if (length == 1) {  // with a constant size the copy is a register move
      std::memcpy(to + t * kSize, from + f * kSize, kSize);
    } else {
      std::memcpy(to + t * kSize, from + f * kSize, length * kSize);
    }
  });
}

}  // namespace

Result<Buffer> transpose(Bytes chunk, std::span<const uint64_t> shape, std::span<const size_t> order,
                         size_t element_size) {
  CODECFS_ASSIGN(Buffer result, Buffer::allocate(chunk.size()));
  const std::byte* from = chunk.data();
  std::byte* to = result.data();
  switch (element_size) {
    case 1: transpose_sized<1>(from, to, shape, order); break;
    case 2: transpose_sized<2>(from, to, shape, order); break;
    case 4: transpose_sized<4>(from, to, shape, order); break;
    case 8: transpose_sized<8>(from, to, shape, order); break;
    case 16: transpose_sized<16>(from, to, shape, order); break;
    default:
      for_each_run(shape, order, [=](uint64_t f, uint64_t t, uint64_t length) {
        std::memcpy(to + t * element_size, from + f * element_size, length * element_size);
      });
  }
  return result;
}

Result<Buffer> transpose_items(Bytes chunk, std::span<const uint64_t> shape, std::span<const size_t> order) {
  uint64_t elements = 1;
  for (const uint64_t length : shape) elements *= length;
  try {
    std::vector<uint32_t> starts;
    CODECFS_TRY(for_each_item(chunk, elements, [&](uint64_t i, size_t at) {
      if (i == 0) starts.resize(elements);
      starts[i] = static_cast<uint32_t>(at);
    }));

    std::vector<uint32_t> ordered(elements);
    for_each_run(shape, order, [&](uint64_t f, uint64_t t, uint64_t length) {
      for (uint64_t i = 0; i < length; ++i) ordered[t + i] = starts[f + i];
    });
    CODECFS_ASSIGN(Buffer result, Buffer::allocate(chunk.size()));
    std::memcpy(result.data(), chunk.data(), 4);
    std::byte* to = result.data() + 4;
    for (const uint32_t start : ordered) {
      const size_t size = load_le<uint32_t>(chunk.data() + start) + size_t{4};
      std::memcpy(to, chunk.data() + start, size);
      to += size;
    }
    return result;
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "no memory to transpose {} items", elements);
  }
}

std::vector<size_t> inverse_order(std::span<const size_t> order) {
  std::vector<size_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  return inverse;
}

std::vector<uint64_t> transposed_shape(std::span<const uint64_t> shape, std::span<const size_t> order) {
  std::vector<uint64_t> result;
  result.reserve(order.size());
  for (const size_t axis : order) result.push_back(shape[axis]);
  return result;
}

Result<> check_items(Bytes chunk, uint64_t elements) {
  const Result<> valid = for_each_item(chunk, elements, [](uint64_t, size_t) {});
  if (!valid) return fail(EINVAL, "{}", valid.error().reason);
  return {};
}

}  // namespace codecfs::zarr
