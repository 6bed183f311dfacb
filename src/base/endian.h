#pragma once
// Unaligned loads and stores of integers in a given byte order.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace codecfs {

template <std::unsigned_integral T>
T byte_swap(T value) {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <std::unsigned_integral T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? value : byte_swap(value);
}

template <std::unsigned_integral T>
T load_be(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::big ? value : byte_swap(value);
}

template <std::unsigned_integral T>
void store_le(std::byte* to, T value) {
  if (std::endian::native != std::endian::little) value = byte_swap(value);
  std::memcpy(to, &value, sizeof value);
}

template <std::unsigned_integral T>
void store_be(std::byte* to, T value) {
  if (std::endian::native != std::endian::big) value = byte_swap(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace codecfs
