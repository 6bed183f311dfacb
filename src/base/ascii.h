#pragma once
// ASCII text of names, headers and settings, whatever the locale.

#include <algorithm>
#include <string>
#include <string_view>

namespace codecfs {

inline constexpr std::string_view kAsciiSpaces = " \t\r\n\f\v";

inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), to_lower);
  return result;
}

inline bool is_same_word(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, to_lower, to_lower);
}

/// Without white space at both ends.
inline std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kAsciiSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kAsciiSpaces) - begin + 1);
}

}  // namespace codecfs
