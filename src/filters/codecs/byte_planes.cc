// Joins and splits byte planes. The vector code is a perfect-shuffle network over registers: with planes v[0..S-1], one
// level maps v to {lo(v[0],v[S/2]), hi(v[0],v[S/2]), lo(v[1],v[S/2+1]), ...}; after log2(S) levels the bytes are in
// element order.
//
// The position of a byte has log2(S) bits for the register and 4 for the byte in it, and a level rotates these bits by
// one. Four more levels complete the rotation, so they convert elements back to planes.

#include "filters/codecs/byte_planes.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace codecfs::filters {
namespace {

/// Converts elements `first` to `count`, in blocks small enough to stay in the cache for all planes.
void join_scalar(const std::byte* from, std::byte* to, size_t first, size_t count, size_t size) {
  const size_t block = std::max<size_t>(16, 8192 / size);
  for (size_t start = first; start < count; start += block) {
    const size_t end = std::min(count, start + block);
    for (size_t plane = 0; plane < size; ++plane) {
      const std::byte* in = from + plane * count;
      std::byte* out = to + plane;
      for (size_t i = start; i < end; ++i) out[i * size] = in[i];
    }
  }
}

void split_scalar(const std::byte* from, std::byte* to, size_t first, size_t count, size_t size) {
  const size_t block = std::max<size_t>(16, 8192 / size);
  for (size_t start = first; start < count; start += block) {
    const size_t end = std::min(count, start + block);
    for (size_t plane = 0; plane < size; ++plane) {
      const std::byte* in = from + plane;
      std::byte* out = to + plane * count;
      for (size_t i = start; i < end; ++i) out[i] = in[i * size];
    }
  }
}

#if defined(__x86_64__)

constexpr size_t log2_of(size_t size) { return size == 1 ? 0 : 1 + log2_of(size / 2); }
constexpr size_t kSplitLevels = 4;

/// Applies `Levels` levels of the network.
template <size_t Levels, size_t Size>
inline void rotate_sse2(__m128i (&v)[Size]) {
  if constexpr (Size == 1) return;
#pragma GCC unroll 4
  for (size_t level = 0; level < Levels; ++level) {
    __m128i w[Size];
#pragma GCC unroll 8
    for (size_t k = 0; k < Size / 2; ++k) {
      w[2 * k] = _mm_unpacklo_epi8(v[k], v[k + Size / 2]);
      w[2 * k + 1] = _mm_unpackhi_epi8(v[k], v[k + Size / 2]);
    }
#pragma GCC unroll 16
    for (size_t k = 0; k < Size; ++k) v[k] = w[k];
  }
}

/// Loads 16 elements from `Size` planes, `stride` bytes apart, and returns them in order in Size registers.
template <size_t Size>
inline void interleave_sse2(const std::byte* from, size_t stride, __m128i (&v)[Size]) {
#pragma GCC unroll 16
  for (size_t p = 0; p < Size; ++p) v[p] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + p * stride));
  rotate_sse2<log2_of(Size)>(v);
}

template <size_t Size>
void split_sse2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i v[Size];
#pragma GCC unroll 16
    for (size_t k = 0; k < Size; ++k)
      v[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * Size + k * 16));
    rotate_sse2<kSplitLevels>(v);
#pragma GCC unroll 16
    for (size_t p = 0; p < Size; ++p) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + p * count + i), v[p]);
  }
  split_scalar(from, to, i, count, Size);
}

template <size_t Size>
void join_sse2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i v[Size];
    interleave_sse2<Size>(from + i, count, v);
#pragma GCC unroll 16
    for (size_t k = 0; k < Size; ++k) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * Size + k * 16), v[k]);
  }
  join_scalar(from, to, i, count, Size);
}

// A 256-bit unpack works on 128-bit lanes: the lower lanes become elements i..i+15, the upper lanes i+16..i+31.
template <size_t Size>
__attribute__((target("avx2"))) void join_avx2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    __m256i v[Size];
#pragma GCC unroll 16
    for (size_t p = 0; p < Size; ++p) v[p] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + p * count + i));
#pragma GCC unroll 4
    for (size_t level = 1; level < Size; level *= 2) {
      __m256i w[Size];
#pragma GCC unroll 8
      for (size_t k = 0; k < Size / 2; ++k) {
        w[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + Size / 2]);
        w[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + Size / 2]);
      }
#pragma GCC unroll 16
      for (size_t k = 0; k < Size; ++k) v[k] = w[k];
    }
    std::byte* lower = to + i * Size;
    std::byte* upper = lower + 16 * Size;
#pragma GCC unroll 16
    for (size_t k = 0; k < Size; ++k) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(lower + k * 16), _mm256_castsi256_si128(v[k]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(upper + k * 16), _mm256_extracti128_si256(v[k], 1));
    }
  }
  join_scalar(from, to, i, count, Size);
}

template <size_t Size>
__attribute__((target("avx2"))) void split_avx2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const std::byte* lower = from + i * Size;
    const std::byte* upper = lower + 16 * Size;
    __m256i v[Size];
#pragma GCC unroll 16
    for (size_t k = 0; k < Size; ++k) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower + k * 16));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper + k * 16));
      v[k] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
#pragma GCC unroll 4
    for (size_t level = 0; level < kSplitLevels; ++level) {
      __m256i w[Size];
#pragma GCC unroll 8
      for (size_t k = 0; k < Size / 2; ++k) {
        w[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + Size / 2]);
        w[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + Size / 2]);
      }
#pragma GCC unroll 16
      for (size_t k = 0; k < Size; ++k) v[k] = w[k];
    }
#pragma GCC unroll 16
    for (size_t p = 0; p < Size; ++p) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + p * count + i), v[p]);
  }
  split_scalar(from, to, i, count, Size);
}

template <size_t Size>
void split_vector(const std::byte* from, std::byte* to, size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  avx2 ? split_avx2<Size>(from, to, count) : split_sse2<Size>(from, to, count);
}

template <size_t Size>
void join_vector(const std::byte* from, std::byte* to, size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  avx2 ? join_avx2<Size>(from, to, count) : join_sse2<Size>(from, to, count);
}

/// Writes 16 elements' bytes of `Group` planes to their places in elements of `size` bytes.
template <size_t Group>
inline void join_group(const std::byte* from, size_t stride, std::byte* to, size_t size) {
  __m128i v[Group];
  interleave_sse2<Group>(from, stride, v);
  std::byte pieces[16 * Group];
  std::memcpy(pieces, v, sizeof v);
#pragma GCC unroll 16
  for (size_t i = 0; i < 16; ++i) std::memcpy(to + i * size, pieces + i * Group, Group);
}

/// For any size: handles 8, 4, 2 and 1 planes at a time.
void join_groups(const std::byte* from, std::byte* to, size_t count, size_t size) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const std::byte* in = from + i;
    std::byte* out = to + i * size;
    size_t plane = 0;
    for (; plane + 8 <= size; plane += 8) join_group<8>(in + plane * count, count, out + plane, size);
    if ((size & 4) != 0) join_group<4>(in + plane * count, count, out + plane, size);
    plane += size & 4;
    if ((size & 2) != 0) join_group<2>(in + plane * count, count, out + plane, size);
    plane += size & 2;
    if ((size & 1) != 0) join_group<1>(in + plane * count, count, out + plane, size);
  }
  join_scalar(from, to, i, count, size);
}

/// Writes `Group` bytes of each of 16 elements of `size` bytes to their planes, `stride` bytes apart.
template <size_t Group>
inline void split_group(const std::byte* from, size_t size, std::byte* to, size_t stride) {
  std::byte pieces[16 * Group];
#pragma GCC unroll 16
  for (size_t i = 0; i < 16; ++i) std::memcpy(pieces + i * Group, from + i * size, Group);
  __m128i v[Group];
  std::memcpy(v, pieces, sizeof v);
  rotate_sse2<kSplitLevels>(v);
#pragma GCC unroll 16
  for (size_t p = 0; p < Group; ++p) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + p * stride), v[p]);
}

void split_groups(const std::byte* from, std::byte* to, size_t count, size_t size) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const std::byte* in = from + i * size;
    std::byte* out = to + i;
    size_t plane = 0;
    for (; plane + 8 <= size; plane += 8) split_group<8>(in + plane, size, out + plane * count, count);
    if ((size & 4) != 0) split_group<4>(in + plane, size, out + plane * count, count);
    plane += size & 4;
    if ((size & 2) != 0) split_group<2>(in + plane, size, out + plane * count, count);
    plane += size & 2;
    if ((size & 1) != 0) split_group<1>(in + plane, size, out + plane * count, count);
  }
  split_scalar(from, to, i, count, size);
}

#endif

}  // namespace

void join_byte_planes(const std::byte* from, std::byte* to, size_t count, size_t size) {
#if defined(__x86_64__)
  switch (size) {
    case 2: return join_vector<2>(from, to, count);
    case 4: return join_vector<4>(from, to, count);
    case 8: return join_vector<8>(from, to, count);
    case 16: return join_vector<16>(from, to, count);
    default: return join_groups(from, to, count, size);
  }
#else
  join_scalar(from, to, 0, count, size);
#endif
}

void join_byte_planes(Bytes from, std::byte* to, size_t size) {
  const size_t count = from.size() / size;
  join_byte_planes(from.data(), to, count, size);
  const size_t whole = count * size;
  std::memcpy(to + whole, from.data() + whole, from.size() - whole);
}

void split_byte_planes(const std::byte* from, std::byte* to, size_t count, size_t size) {
#if defined(__x86_64__)
  switch (size) {
    case 2: return split_vector<2>(from, to, count);
    case 4: return split_vector<4>(from, to, count);
    case 8: return split_vector<8>(from, to, count);
    case 16: return split_vector<16>(from, to, count);
    default: return split_groups(from, to, count, size);
  }
#else
  split_scalar(from, to, 0, count, size);
#endif
}

}  // namespace codecfs::filters
