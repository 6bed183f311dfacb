#include "base/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"

namespace codecfs {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

bool is_in(const auto& ranges, char32_t character) {
  return std::ranges::any_of(ranges,
                             [&](const Range& range) { return character >= range.first && character <= range.last; });
}

// C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of bidirectional text.
constexpr std::array kHidden{Range{0x00, 0x1F},     Range{0x7F, 0x9F},     Range{0x061C, 0x061C}, Range{0x200E, 0x200F},
                             Range{0x2028, 0x202E}, Range{0x2066, 0x2069}, Range{0xFFF9, 0xFFFB}};

// The larger blocks of Unicode's East_Asian_Width W and F, and emoji.
constexpr std::array kWide{Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0x4DBF},
                           Range{0x4E00, 0xA4CF},   Range{0xA960, 0xA97F},   Range{0xAC00, 0xD7A3},
                           Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},
                           Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF},
                           Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};

constexpr std::array kCombining{Range{0x0300, 0x036F}, Range{0x0483, 0x0489}, Range{0x1AB0, 0x1AFF},
                                Range{0x1DC0, 0x1DFF}, Range{0x200B, 0x200D}, Range{0x20D0, 0x20FF},
                                Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};

size_t columns_of_character(char32_t character) {
  if (character < 0x300) return 1;
  if (is_in(kCombining, character)) return 0;
  return is_in(kWide, character) ? 2 : 1;
}

/// The bytes and columns of the character at the start; a byte that is no character counts as one.
std::pair<size_t, size_t> first_of(std::string_view text) {
  const size_t length = utf8_length(text);
  return length == 0 ? std::pair<size_t, size_t>(1, 1) : std::pair(length, columns_of_character(utf8_decode(text)));
}

/// The bytes at the start that fit.
size_t fitting(std::string_view text, size_t columns) {
  size_t at = 0;
  for (size_t used = 0; at < text.size();) {
    const auto [length, width] = first_of(text.substr(at));
    if (used + width > columns) break;
    at += length;
    used += width;
  }
  return at;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char32_t character = length == 0 ? 0xFFFD : utf8_decode(text);
    if (character == '\n' || character == '\r' || character == '\t')
      shown += ' ';
    else if (is_in(kHidden, character))
      shown += '?';
    else
      utf8_append(shown, character);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return shown;
}

size_t terminal_columns(int fd) {
  constexpr size_t kUsual = 80;
  winsize size{};
  if (isatty(fd) == 0) return 0;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const auto [length, width] = first_of(text);
    columns += width;
    text.remove_prefix(length);
  }
  return columns;
}

std::string cut_to(std::string_view text, size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  return std::string(text.substr(0, fitting(text, std::max<size_t>(columns, 1) - 1))) + "…";
}

std::string wrap_to(std::string_view text, size_t columns, std::string_view indent) {
  const size_t shift = columns_of(indent);
  if (columns <= shift + 1) return std::string(text);  // or no limit
  std::string lines;
  size_t room = columns;
  while (columns_of(text) > room) {
    const size_t most = std::max(fitting(text, room), first_of(text).first);
    // A space that is the first character too far ends the line as well.
    const size_t space = text.rfind(' ', most);
    const bool has_space = space != text.npos && space > 0 && text.find_first_not_of(' ') < space;
    const size_t end = has_space ? space : most;
    lines.append(text.substr(0, end)).append("\n").append(indent);
    text.remove_prefix(end);
    while (text.starts_with(' ')) text.remove_prefix(1);
    room = columns - shift;
  }
  return lines.append(text);
}

}  // namespace codecfs
