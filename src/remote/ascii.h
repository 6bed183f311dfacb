#pragma once
// ASCII text of headers and settings, whatever the locale.

#include <string>
#include <string_view>

namespace codecfs::remote {

inline constexpr std::string_view kAsciiSpaces = " \t\r\n\f\v";

inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// Without white space at both ends.
inline std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kAsciiSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kAsciiSpaces) - begin + 1);
}

}  // namespace codecfs::remote
