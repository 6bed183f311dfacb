// Joining byte planes. The vector code interleaves registers in a perfect-shuffle network: with planes v[0..S-1], one
// level maps v to {lo(v[0],v[S/2]), hi(v[0],v[S/2]), lo(v[1],v[S/2+1]), ...}; after log2(S) levels the bytes stand
// element by element, in order.

#include "filters/byte_planes.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace codecfs::filters {
namespace {

/// Elements `first` to `count`. In blocks that stay in the cache while each plane is spread over them.
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

#if defined(__x86_64__)

template <size_t Size>
void join_sse2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i v[Size];
    __m128i w[Size];
    for (size_t p = 0; p < Size; ++p) v[p] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + p * count + i));
    for (size_t level = 1; level < Size; level *= 2) {
      for (size_t k = 0; k < Size / 2; ++k) {
        w[2 * k] = _mm_unpacklo_epi8(v[k], v[k + Size / 2]);
        w[2 * k + 1] = _mm_unpackhi_epi8(v[k], v[k + Size / 2]);
      }
      std::copy(w, w + Size, v);
    }
    for (size_t k = 0; k < Size; ++k) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * Size + k * 16), v[k]);
  }
  join_scalar(from, to, i, count, Size);
}

// A 256-bit unpack works in two halves of its own: the lower halves end as elements i..i+15, the upper as i+16..i+31.
template <size_t Size>
__attribute__((target("avx2"))) void join_avx2(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    __m256i v[Size];
    __m256i w[Size];
    for (size_t p = 0; p < Size; ++p) v[p] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + p * count + i));
    for (size_t level = 1; level < Size; level *= 2) {
      for (size_t k = 0; k < Size / 2; ++k) {
        w[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + Size / 2]);
        w[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + Size / 2]);
      }
      for (size_t k = 0; k < Size; ++k) v[k] = w[k];
    }
    std::byte* lower = to + i * Size;
    std::byte* upper = lower + 16 * Size;
    for (size_t k = 0; k < Size; ++k) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(lower + k * 16), _mm256_castsi256_si128(v[k]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(upper + k * 16), _mm256_extracti128_si256(v[k], 1));
    }
  }
  join_scalar(from, to, i, count, Size);
}

template <size_t Size>
void join_vector(const std::byte* from, std::byte* to, size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  avx2 ? join_avx2<Size>(from, to, count) : join_sse2<Size>(from, to, count);
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
    default: break;
  }
#endif
  join_scalar(from, to, 0, count, size);
}

}  // namespace codecfs::filters
