#include "model/base64.h"

#include <bit>
#include <cstdint>

#include "base/endian.h"

namespace codecfs {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < count ? std::to_integer<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : text) {
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xFFFF;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      bytes.push_back(static_cast<std::byte>(bits >> bit_count));
    }
  }
  if ((bits & ((1U << bit_count) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::string encode_base64(double number) {
  std::byte bytes[sizeof number];
  store_le(bytes, std::bit_cast<uint64_t>(number));
  return encode_base64(bytes);
}

std::optional<double> double_in_base64(std::string_view text) {
  const auto bytes = decode_base64(text);
  if (!bytes || bytes->size() != sizeof(double)) return std::nullopt;
  return std::bit_cast<double>(load_le<uint64_t>(bytes->data()));
}

}  // namespace codecfs
