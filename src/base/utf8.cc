#include "base/utf8.h"

#include <cstring>

namespace codecfs {
namespace {

uint8_t at(std::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

bool is_continuation(std::string_view text, size_t index) {
  return index < text.size() && (at(text, index) & 0xC0) == 0x80;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !is_continuation(text, 1)) return 0;
  if (first < 0xE0) return 2;
  const uint8_t second = at(text, 1);
  if (!is_continuation(text, 2)) return 0;
  if (first == 0xE0 && second < 0xA0) return 0;  // overlong
  if (first == 0xED && second > 0x9F) return 0;  // surrogate
  if (first < 0xF0) return 3;
  if (!is_continuation(text, 3)) return 0;
  if (first == 0xF0 && second < 0x90) return 0;  // overlong
  if (first == 0xF4 && second > 0x8F) return 0;  // above U+10FFFF
  return 4;
}

char32_t utf8_decode(std::string_view text) {
  const auto tail = [&](size_t index) { return static_cast<char32_t>(at(text, index) & 0x3F); };
  const char32_t first = at(text, 0);
  switch (utf8_length(text)) {
    case 2: return (first & 0x1F) << 6 | tail(1);
    case 3: return (first & 0x0F) << 12 | tail(1) << 6 | tail(2);
    case 4: return (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
    default: return first;
  }
}

void utf8_append(std::string& text, char32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) code_point = 0xFFFD;
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0 | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_utf8(std::string_view text) {
  constexpr uint64_t kNotAscii = 0x8080808080808080;
  while (!text.empty()) {
    // Most texts are ASCII.
    uint64_t eight = kNotAscii;
    if (text.size() >= sizeof eight) std::memcpy(&eight, text.data(), sizeof eight);
    if ((eight & kNotAscii) == 0) {
      text.remove_prefix(sizeof eight);
      continue;
    }
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace codecfs
